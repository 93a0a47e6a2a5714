"""Brokers that the log does not know, on a real quorum: refused, unregistered while they run, none at all."""

import pytest

from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import MonitoredCluster
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live]
HOLDS = {"node-not-registered.hold": 1}
OTHERS = {"broker-fenced", "partitions-offline", "version-drift"}


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=1, brokers=2, properties={"broker.session.timeout.ms": "4000"})


def unregister(lab: Lab, *brokers: int) -> None:
    for broker in brokers:
        lab.jvm.tool("kafka-cluster", ["unregister", "--bootstrap-controller", lab.bootstrap[0], "--id", str(broker)])


def test_a_broker_without_a_finalized_feature_level_is_refused(lab: Lab, monitor: MonitoredCluster) -> None:
    _, broker = lab.brokers
    lab.stop(broker)
    unregister(lab, broker)
    monitor.start_scenario(HOLDS)

    lab.node(broker).version = "4.3.1"
    lab.start(broker, wait=False)
    fired = monitor.wait_for("node-not-registered", within_s=60)
    lab.kill(broker)
    lab.node(broker).version = lab.version
    lab.start(broker)
    monitor.wait_for("node-not-registered", "resolved", within_s=60)

    assert (fired.subject, fired.severity) == (f"node {broker}", "warning")
    assert monitor.rules - OTHERS == {"node-not-registered"}


def test_a_broker_that_is_unregistered_while_it_runs_must_be_restarted(lab: Lab, monitor: MonitoredCluster) -> None:
    _, broker = lab.brokers
    monitor.start_scenario(HOLDS)

    unregister(lab, broker)
    fired = monitor.wait_for("node-not-registered", within_s=60)
    lab.kill(broker)
    lab.start(broker)
    monitor.wait_for("node-not-registered", "resolved", within_s=60)

    assert fired.subject == f"node {broker}"
    assert "It was unregistered while it ran." in fired.summary
    assert monitor.rules - OTHERS == {"node-not-registered"}


def test_the_last_broker_is_unregistered(lab: Lab, monitor: MonitoredCluster) -> None:
    monitor.start_scenario({"no-broker.hold": 1})

    lab.kill(*lab.brokers)
    unregister(lab, *lab.brokers)
    fired = monitor.wait_for("no-broker", within_s=60)
    lab.start(*lab.brokers)
    monitor.wait_for("no-broker", "resolved", within_s=60)

    assert (fired.subject, fired.severity) == ("brokers", "critical")
    assert monitor.rules - OTHERS == {"no-broker"}
