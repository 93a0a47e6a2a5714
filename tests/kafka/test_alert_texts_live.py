"""What the person on call reads, on a real quorum: an unclean election, a lost majority, controllers that restart.

The remedies of all alerts that are active at once must agree, and the texts must say what is true.
"""

from pathlib import Path

import pytest

from rules.evaluate import RULES
from rules.facts.node import Nodes, Process
from rules.finding import Severity
from rules.model.identifiers import NodeId
from tests.job.conftest import await_fetches_of_all_voters
from tests.job.elections import rules_expected_by_elections
from tests.kafka.conftest import MakeLab
from tests.kafka.lab_helpers import second_process
from tests.kafka.monitored_cluster import MonitoredCluster, pause_nodes
from tests.lab import Lab
from tests.remedy_conflicts import found_conflicts

pytestmark = [pytest.mark.lab, pytest.mark.live]
DEFAULTS = {
    f"{rule.id}.{one.name}": one.default
    for rule in RULES.values()
    for one in rule.thresholds
    if one.name in ("hold", "starts", "share")
}
"""Those that a scenario changes."""


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=3, brokers=2, properties={"broker.session.timeout.ms": "4000"})


def test_rolling_restart_fires_no_alert_except_for_long_or_many_elections(lab: Lab, monitor: MonitoredCluster) -> None:
    monitor.start_scenario(DEFAULTS)
    for node in (*lab.followers, lab.leader, *lab.brokers):
        lab.stop(node)
        lab.start(node)
        await_fetches_of_all_voters(lab)
    monitor.wait_until_observed()
    monitor.wait_for_quorum(lambda quorum: all(broker.alive for broker in quorum.brokers.values()))

    assert monitor.rules <= rules_expected_by_elections(lab)


def test_lost_majority_is_one_alert_that_says_to_start_the_controllers(lab: Lab, monitor: MonitoredCluster) -> None:
    one, other = lab.followers
    others = {"stale-voter-endpoint.hold": 0, "ages.fetch": 3}
    monitor.start_scenario(others)

    lab.kill(one, other)
    both = NodeId(one), NodeId(other)
    monitor.wait_for_quorum(lambda quorum: {Nodes(quorum).process(node) for node in both} == {Process.DOWN})
    monitor.set_thresholds({**others, "no-leader.hold": 1})
    fired = monitor.wait_for("no-leader")
    # A start takes some seconds on a busy machine, in which both endpoints refuse while the first one fetches.
    monitor.set_thresholds({**others, "no-leader.hold": 1, "stale-voter-endpoint.hold": 20})
    lab.start(one, other)
    resolved = monitor.wait_for("no-leader", "resolved", within_s=60)

    now = lab.await_leader()
    assert f"Controllers {one} and {other} are down" in fired.summary
    assert [step for step in fired.remedy if "rescue plan --lost" in step]
    assert resolved.summary.startswith(f"Controller {now.leader_id} leads in epoch {now.leader_epoch} and commits. ")
    # A controller that has just started fetches before its endpoint is probed again: that is a warning without a hold.
    assert [each for each in monitor.alerts if each.severity == "critical" and each.rule != "no-leader"] == []
    assert found_conflicts(monitor.alerts) == []


def test_controller_that_restarts_again_and_again_fires_and_resolves(
    lab: Lab, monitor: MonitoredCluster, tmp_path: Path
) -> None:
    """Each time it is back before voter-lagging fires. Three starts are too many: other tests start each one twice."""
    voter, _ = lab.followers
    monitor.start_scenario({"node-restarting.starts": 3})
    # What other tests restarted is not counted.
    before = len(monitor.machine.quorum().history.starts)

    for count in (1, 2, 3):
        lab.kill(voter)
        lab.start(voter)
        monitor.wait_for_quorum(lambda quorum, count=count: len(quorum.history.starts) == before + count)  # type: ignore[misc]
    fired = monitor.wait_for("node-restarting", subject=f"controller {voter}")
    # As after a quiet quarter of an hour.
    monitor.set_thresholds({"node-restarting.starts": 3, "node-restarting.window": 0.001})
    resolved = monitor.wait_for("node-restarting", "resolved", subject=f"controller {voter}")

    assert fired.severity == "warning"
    assert fired.summary.startswith(f"Controller {voter} restarts again and again: ")
    assert fired.summary.endswith(" Each time the quorum has one voter less.")
    assert resolved.summary.startswith(f"Controller {voter} has not started again within the window.")
    assert "epoch-churn" not in monitor.rules


def test_second_process_with_the_node_id_of_a_voter_fires_and_resolves(
    lab: Lab, monitor: MonitoredCluster, tmp_path: Path
) -> None:
    voter, _ = lab.followers
    monitor.start_scenario({"duplicate-node-id.hold": 1})

    with second_process(lab, lab.node(voter), tmp_path):
        # By the log: both register in turn.
        monitor.wait_for_quorum(lambda quorum: bool(quorum.history.double_registrations), within_s=60)
        fired = monitor.wait_for("duplicate-node-id", subject=f"node {voter}")
    monitor.set_thresholds({"duplicate-node-id.window": 0.001})
    monitor.wait_for("duplicate-node-id", "resolved", subject=f"node {voter}", within_s=60)

    assert fired.severity == "critical"
    assert fired.summary.startswith(f"Two processes run with node.id {voter}, a voter. ")
    assert "node-restarting" not in monitor.rules
    assert [*monitor.machine.quorum().history.double_registrations][-1].id == voter


@pytest.mark.long
def test_broker_that_is_fenced_again_and_again_fires_and_resolves(
    lab: Lab, monitor: MonitoredCluster, tmp_path: Path
) -> None:
    """Each time it is back long before broker-fenced fires. Here two fencings within a minute are flapping."""
    broker = lab.brokers[0]
    monitor.start_scenario({"broker-flapping.fencings": 2, "broker-flapping.window": 60})

    for _ in range(2):
        with pause_nodes(lab, broker):
            monitor.wait_for_quorum(lambda quorum: quorum.brokers[NodeId(broker)].fenced)
        monitor.wait_for_quorum(lambda quorum: quorum.brokers[NodeId(broker)].alive)
    fired = monitor.wait_for("broker-flapping", subject=f"broker {broker}")
    # The window ends before the first fencing: as after a quiet quarter of an hour.
    monitor.set_thresholds({"broker-flapping.fencings": 2, "broker-flapping.window": 1})
    resolved = monitor.wait_for("broker-flapping", "resolved", subject=f"broker {broker}")

    assert fired.severity == "warning"
    assert fired.summary.startswith(f"Broker {broker} was fenced 2 times within 60 s, the last time at ")
    assert "Its process did not restart: its heartbeats were interrupted." in fired.summary
    assert resolved.summary.startswith(f"Broker {broker} is no longer fenced too often. It is not fenced")
    assert {alert.rule for alert in monitor.alerts} == {"broker-flapping"}
    assert monitor.sent(tmp_path) == ["firing warning: broker-flapping", "resolved warning: broker-flapping"]


def test_fenced_broker_with_the_only_copy_is_copied_before_it_is_started(
    lab: Lab, monitor: MonitoredCluster, tmp_path: Path
) -> None:
    monitor.start_scenario({"broker-fenced.hold": 3600, "partition-stuck-recovering.hold": 1})

    unclean = lab.leave_partitions_recovering("orders", partitions=2)
    elected = monitor.wait_for("unclean-election", subject="topic orders")
    stuck = monitor.wait_for("partition-stuck-recovering", subject="topic orders")
    # With the default holds too, broker-fenced fires long after the election that makes its copy the only one.
    monitor.set_thresholds({"broker-fenced.hold": 1, "partition-stuck-recovering.hold": 1})
    fenced = monitor.wait_for("broker-fenced", subject=f"broker {unclean.killed_broker}")

    for alert in (fenced, elected, stuck):
        assert alert.remedy[0] == (
            f"# Do not start or restart broker {unclean.killed_broker} before you have copied orders-0 and orders-1 "
            "from its log.dirs: it may hold the only copy of acknowledged records, and it truncates them when it starts"
        )
    assert (fenced.severity, elected.severity) == ("critical", "critical")
    assert found_conflicts(monitor.alerts) == []
    paged = monitor.sent(tmp_path, min_severity=Severity.CRITICAL)
    assert [line for line in paged if " critical: unclean-election" in line], paged

    lab.start(unclean.killed_broker)
    resolved = monitor.wait_for("broker-fenced", "resolved", subject=f"broker {unclean.killed_broker}", within_s=60)
    assert resolved.summary.startswith(f"Broker {unclean.killed_broker} is not fenced")
