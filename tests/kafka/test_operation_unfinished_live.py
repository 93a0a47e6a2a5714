"""A reassignment that does not end, or leaves throttles, on a real quorum: its new replica is on a killed broker."""

import pytest

from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import MonitoredCluster
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live]
LIMITS = {"operation-unfinished.blocked_for": 5, "operation-unfinished.hold": 1}


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=1, brokers=2, properties={"broker.session.timeout.ms": "4000"})


def test_a_reassignment_to_a_killed_broker_ends_when_it_is_back(lab: Lab, monitor: MonitoredCluster) -> None:
    first, second = lab.brokers
    lab.create_topic("orders", assignment=[[first]] * 2)
    lab.produce("orders", 100_000)
    monitor.start_scenario(LIMITS)

    # The tool refuses a broker that is fenced: the broker is killed while it copies, which the throttle makes slow.
    lab.reassign({"orders": [[second]] * 2}, "--throttle", "1000")
    lab.kill(second)
    fired = monitor.wait_for("operation-unfinished", within_s=60)
    printed = lab.run_remedy(next(line for line in fired.remedy if not line.startswith("#")))
    lab.start(second)
    monitor.wait_for("operation-unfinished", "resolved", within_s=60)

    assert (fired.subject, fired.severity) == ("partition reassignment", "warning")
    assert fired.evidence["brokers_down"] == [second]
    assert f"orders-1: replicas: {second},{first}. adding: {second}. removing: {first}." in str(printed)
    assert monitor.rules == {"operation-unfinished"}


def test_throttles_that_a_reassignment_left_are_removed_also_of_a_killed_broker(
    lab: Lab, monitor: MonitoredCluster
) -> None:
    first, second = lab.brokers
    lab.create_topic("pay", assignment=[[first]])
    monitor.start_scenario({"operation-unfinished.throttled_for": 1})
    lab.reassign({"pay": [[second]]}, "--additional", "--throttle", "50000000")

    fired = monitor.wait_for("operation-unfinished", within_s=60)
    lab.kill(second)
    for line in fired.remedy:
        lab.run_remedy(line)
    monitor.wait_for("operation-unfinished", "resolved", within_s=60)
    lab.start(second)

    assert (fired.subject, fired.severity) == ("replication throttles", "warning")
    assert "pay" in fired.evidence["topics"]  # type: ignore[operator]
    assert fired.evidence["brokers"] == [first, second]
