"""What the person on call reads, on a real quorum: an unclean election, a lost majority, controllers that hang.

The remedies of all alerts that are active at once must agree, and the texts must say what is true.
"""

import sys
from collections.abc import Iterator

import pytest

from deploy.lab.lab import Lab
from rules.alert import Alert
from rules.formatting import alert_text
from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import MonitoredCluster, monitor_cluster, pause_nodes
from tests.remedy_conflicts import found_conflicts

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=3, brokers=2, properties={"broker.session.timeout.ms": "6000"})


@pytest.fixture(scope="module")
def monitor(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitoredCluster]:
    with monitor_cluster(lab, tmp_path_factory.mktemp("journal")) as monitor:
        yield monitor


def shown(*alerts: Alert) -> None:
    """Writes the alerts as they are sent: `pytest -s` shows them."""
    for alert in alerts:
        sys.stdout.write("\n" + alert_text(alert))


def followers(lab: Lab) -> list[int]:
    leader = lab.await_state(lambda state: state.leader_id in lab.controllers, what="a leader").leader_id
    return [node for node in lab.controllers if node != leader]


def test_lost_majority_is_one_alert_that_says_to_start_the_controllers(lab: Lab, monitor: MonitoredCluster) -> None:
    one, other = followers(lab)
    monitor.start_scenario({"no-leader.hold": 8, "stale-voter-endpoint.hold": 0})

    lab.kill(one)
    lab.kill(other)
    fired = monitor.wait_for("no-leader")
    lab.start(one)
    lab.start(other)
    resolved = monitor.wait_for("no-leader", "resolved", within_s=60)

    shown(fired, resolved)
    now = lab.await_state(lambda state: state.leader_id in lab.controllers, what="a leader")
    assert f"Controllers {one} and {other} are down" in fired.summary
    assert [step for step in fired.remedy if "no safe recovery" in step]
    assert resolved.summary.startswith(
        f"Controller {now.leader_id} leads in epoch {now.leader_epoch}: metadata changes are possible."
    )
    # A controller that has just started fetches before its endpoint is probed again: that is a warning without a hold.
    assert [each for each in monitor.alerts if each.severity == "critical" and each.rule != "no-leader"] == []
    assert found_conflicts(monitor.alerts) == []


def test_controllers_that_hang_are_not_to_be_started(lab: Lab, monitor: MonitoredCluster) -> None:
    one, other = followers(lab)
    # The hold is longer than a request to a node that does not answer.
    monitor.start_scenario({"no-leader.hold": 12})

    with pause_nodes(lab, one, other):
        fired = monitor.wait_for("no-leader", within_s=60)
    resolved = monitor.wait_for("no-leader", "resolved", within_s=60)

    shown(fired, resolved)
    assert f"Controllers {one} and {other} are hung" in fired.summary
    assert [step for step in fired.remedy if step.startswith("# Start controller")] == []
    assert fired.remedy[0].startswith(f"# Controller {one} hangs, it accepts connections")
    assert "take a thread dump" in fired.remedy[0]
    assert found_conflicts(monitor.alerts) == []


def test_fenced_broker_with_the_only_copy_is_copied_before_it_is_started(lab: Lab, monitor: MonitoredCluster) -> None:
    monitor.start_scenario({"broker-fenced.hold": 1, "partition-stuck-recovering.hold": 1})

    unclean = lab.leave_partitions_recovering("orders", partitions=2)
    elected = monitor.wait_for("unclean-election", subject="topic orders")
    stuck = monitor.wait_for("partition-stuck-recovering", subject="topic orders")
    # It fires when the broker is fenced, and again, more severe, when the election makes its copy the only one.
    fenced = monitor.wait_for("broker-fenced", subject=f"broker {unclean.killed_broker}")
    shown(fenced, elected, stuck)

    for alert in (fenced, elected, stuck):
        assert alert.remedy[0] == (
            f"# Do not start or restart broker {unclean.killed_broker} before you have copied orders-0 and orders-1 "
            "from its log.dirs: it may hold the only copy of acknowledged records, and it truncates them when it starts"
        )
    assert (fenced.severity, elected.severity) == ("critical", "warning")
    assert found_conflicts(monitor.alerts) == []

    lab.start(unclean.killed_broker)
    resolved = monitor.wait_for("broker-fenced", "resolved", subject=f"broker {unclean.killed_broker}", within_s=60)
    shown(resolved)
    assert resolved.summary.startswith(f"Broker {unclean.killed_broker} is not fenced")
