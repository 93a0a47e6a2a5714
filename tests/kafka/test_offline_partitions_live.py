"""Partitions that nobody leads, on a real quorum: a broker's log directory fails, a broker is killed and unregistered.

The first broker has two log directories. Kafka finds a failed one within five seconds, when it writes high watermarks.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.lab.node import Node
from rules.finding import Severity
from tests.kafka.conftest import MakeLab
from tests.kafka.lab_helpers import add_log_directory
from tests.kafka.monitored_cluster import MonitoredCluster
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live]
HOLDS = {"partitions-offline.hold": 1, "log-directory-offline.hold": 1}
OTHERS = {"broker-fenced", "observer-lagging", "unclean-election", "partition-stuck-recovering"}
"""The rules that may fire for a broker that is down, and for its only replicas when it is back."""


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=1, brokers=2, properties={"broker.session.timeout.ms": "4000"})


@pytest.fixture(scope="module")
def second(lab: Lab) -> Node:
    """The first broker's second log directory. Its partitions are in both directories alternately."""
    broker, other = lab.brokers
    node = add_log_directory(lab, broker)
    lab.create_topic("copied", assignment=[[broker, other]] * 4)
    return node


@contextmanager
def failed(directory: Node) -> Iterator[None]:
    """The log directory is replaced by a file."""
    kept = directory.data.rename(directory.data.with_name("kept"))
    directory.data.touch()
    yield
    directory.data.unlink()
    kept.rename(directory.data)


def test_a_failed_directory_with_replicas_elsewhere_is_a_warning(
    lab: Lab, second: Node, monitor: MonitoredCluster
) -> None:
    broker, _ = lab.brokers
    monitor.start_scenario(HOLDS)

    with failed(second):
        fired = monitor.wait_for("log-directory-offline")
        printed = lab.run_remedy(next(line for line in fired.remedy if not line.startswith("#")))
        assert f'"error":"org.apache.kafka.common.errors.KafkaStorageException","logDir":"{second.data}"' in str(
            printed
        )
        lab.stop(broker)
    lab.start(broker)
    monitor.wait_for("log-directory-offline", "resolved")

    assert (fired.subject, fired.severity) == (f"broker {broker}", "warning")
    assert fired.evidence["log_directories_offline"] == {second.directory_id: 2}
    assert monitor.rules - OTHERS == {"log-directory-offline"}, "also while the broker restarted"


def test_a_failed_directory_with_the_only_replicas_takes_partitions_offline(
    lab: Lab, second: Node, monitor: MonitoredCluster
) -> None:
    broker, _ = lab.brokers
    lab.create_topic("single", assignment=[[broker]] * 4)
    lab.produce("single", 40)
    monitor.start_scenario(HOLDS)

    with failed(second):
        fired = monitor.wait_for("partitions-offline")
        # A restart does not help while the disk is broken: the same alert goes on.
        lab.stop(broker)
        lab.start(broker)
        monitor.wait_until_observed()
        again = monitor.wait_for("partitions-offline")
        lab.stop(broker)
    lab.start(broker)
    monitor.wait_for("partitions-offline", "resolved")
    lab.produce("single", 40)

    assert again == fired
    assert (fired.subject, fired.severity) == (f"broker {broker}", "critical")
    assert fired.evidence["partitions_offline"] == 2
    assert fired.evidence["log_directories"] == [second.directory_id]
    assert monitor.rules - OTHERS == {"partitions-offline"}


def test_a_broker_with_the_only_replicas_is_killed_and_unregistered(
    lab: Lab, second: Node, monitor: MonitoredCluster
) -> None:
    _, broker = lab.brokers
    lab.create_topic("alone", assignment=[[broker]] * 2)
    monitor.start_scenario(HOLDS)

    lab.kill(broker)
    fired = monitor.wait_for("partitions-offline")
    lab.jvm.tool("kafka-cluster", ["unregister", "--bootstrap-controller", lab.bootstrap[0], "--id", str(broker)])
    monitor.wait_for_quorum(lambda quorum: broker not in quorum.brokers)
    assert monitor.wait_for("partitions-offline") == fired
    lab.start(broker)
    monitor.wait_for("partitions-offline", "resolved")

    assert fired.subject == f"broker {broker}"
    assert fired.evidence["partitions_offline"] == 2
    assert "is fenced" in fired.summary
    assert monitor.rules - OTHERS == {"partitions-offline"}


def test_brokers_that_are_killed_half_a_minute_apart_are_one_page(
    lab: Lab, monitor: MonitoredCluster, tmp_path: Path
) -> None:
    first, last = lab.brokers
    for broker in (first, last):
        lab.create_topic(f"only-{broker}", assignment=[[broker]])
    monitor.start_scenario({"partitions-offline.hold": 1})

    lab.kill(first)
    fired = monitor.wait_for("partitions-offline", subject=f"broker {first}")
    monitor.wait_for_quorum(lambda quorum: quorum.now_ms - fired.started_at_ms > 33_000, within_s=60)
    lab.kill(last)
    monitor.wait_for("partitions-offline", subject=f"broker {last}")
    lab.start(first, last)
    for broker in (first, last):
        monitor.wait_for("partitions-offline", "resolved", subject=f"broker {broker}")

    pages = [line for line in monitor.sent(tmp_path, min_severity=Severity.CRITICAL) if line.startswith("firing")]
    assert pages == ["firing critical: partitions-offline"]
