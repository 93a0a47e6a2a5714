"""Replicas that are not there, on a real quorum: below min.insync.replicas, and on a broker that is unregistered."""

import pytest

from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import MonitoredCluster
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live]
HOLDS = {"broker-fenced.hold": 5}


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=1, brokers=3, properties={"broker.session.timeout.ms": "4000"})


def test_a_topic_below_its_own_minimum_or_that_of_the_cluster_names_the_broker(
    lab: Lab, monitor: MonitoredCluster
) -> None:
    first, second, _ = lab.brokers
    lab.create_topic("orders", assignment=[[first, second]] * 3)
    configure(lab, "--entity-type", "topics", "--entity-name", "orders", "--add-config", "min.insync.replicas=2")
    monitor.start_scenario({"broker-fenced.hold": 600, "partitions-under-min-isr.hold": 5})

    lab.kill(second)
    fired = monitor.wait_for("partitions-under-min-isr", within_s=120)
    printed = lab.run_remedy(next(line for line in fired.remedy if not line.startswith("#")))
    configure(lab, "--entity-type", "topics", "--entity-name", "orders", "--delete-config", "min.insync.replicas")
    monitor.wait_for("partitions-under-min-isr", "resolved", within_s=60)
    configure(lab, "--entity-type", "brokers", "--entity-default", "--add-config", "min.insync.replicas=2")
    by_default = monitor.wait_for("partitions-under-min-isr", within_s=120)
    lab.start(second)
    monitor.wait_for("partitions-under-min-isr", "resolved", within_s=60)
    configure(lab, "--entity-type", "brokers", "--entity-default", "--add-config", "min.insync.replicas=1")

    assert (fired.subject, fired.severity) == (f"broker {second}", "critical")
    assert fired.summary == by_default.summary.replace(str(by_default.evidence["since"]), str(fired.evidence["since"]))
    assert fired.evidence["partitions_under_min_isr"] == 3
    assert "Topic: orders\tPartition: 2" in str(printed)


def test_a_broker_that_is_unregistered_keeps_its_alert_until_its_replicas_are_moved(
    lab: Lab, monitor: MonitoredCluster
) -> None:
    first, _, third = lab.brokers
    lab.create_topic("payments", assignment=[[first, third]])
    monitor.start_scenario(HOLDS)

    lab.kill(third)
    fenced = monitor.wait_for("broker-fenced", within_s=60)
    lab.jvm.tool("kafka-cluster", ["unregister", "--bootstrap-server", lab.broker_bootstrap[0], "--id", str(third)])
    monitor.wait_for_quorum(lambda quorum: third not in quorum.brokers)
    monitor.wait_until_observed()
    kept = monitor.wait_for("broker-fenced")
    (partitions,) = monitor.machine.quorum().brokers_down.values()
    admin = lab.admin
    admin.delete_topics(["payments"])["payments"].result(30)
    monitor.wait_for("broker-fenced", "resolved", within_s=90)
    lab.start(third)

    assert fenced.subject == kept.subject == f"broker {third}"
    assert (partitions.replicas, partitions.leads) == (1, 0)


def configure(lab: Lab, *options: str) -> None:
    lab.jvm.tool("kafka-configs", ["--bootstrap-server", lab.broker_bootstrap[0], "--alter", *options])
