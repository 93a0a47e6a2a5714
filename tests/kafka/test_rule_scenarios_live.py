"""Rules on a real quorum: a fault is injected, the alert fires with the expected text, and resolves after the fault.

Five controllers and a broker. Raft's timeouts are four times Kafka's defaults: a leader without a majority can be
polled for twelve seconds before it resigns, and a paused broker is fenced only after half a minute.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from deploy.lab import LabError
from tests.faults import (
    BROKER_MADE_VOTER,
    BROKER_PAUSED_IN_SESSION,
    CONTROLLER_PAUSED,
    FOLLOWERS_PAUSED,
    SECOND_CONTROLLER_PAUSED,
    injected,
)
from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import SLOW_START_S, MonitoredCluster, pause_nodes, run_in_bursts
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live]
PROPERTIES = {"broker.session.timeout.ms": "30000", "controller.quorum.fetch.timeout.ms": "8000"}


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=5, brokers=1, properties=PROPERTIES)


def test_one_voter_stops_fetching_then_a_second(lab: Lab, monitor: MonitoredCluster) -> None:
    one, other, *_ = lab.followers
    not_fetching_after = {"ages.fetch": 4}
    monitor.start_scenario({"voter-lagging.hold": 1, "failure-tolerance.hold": 1, **not_fetching_after})

    with injected(CONTROLLER_PAUSED, lab, one) as (lagging,):
        one_voter = monitor.expect(lagging)
        with injected(SECOND_CONTROLLER_PAUSED, lab, other) as (tolerance,):
            two_voters = monitor.expect(tolerance)
    monitor.wait_for("failure-tolerance", "resolved")
    monitor.wait_for("voter-lagging", "resolved")

    assert one_voter.evidence["voter"] == f"{one}-{lab.node(one).directory_id}"
    assert one_voter.evidence["further_failures_tolerated"] == 1
    assert lab.node(one).endpoint in one_voter.remedy[0]
    assert two_voters.summary.startswith(
        "The quorum tolerates no further failure: 3 of 5 voters are in sync; 3 are needed. "
    )
    assert monitor.rules == {"voter-lagging", "failure-tolerance"}


def test_a_majority_stops_fetching_and_nothing_is_committed(lab: Lab, monitor: MonitoredCluster) -> None:
    leader = lab.leader
    # The hold is two seconds longer than `silent`: also a late poll shows that the voters do not fetch.
    # A busy machine may take longer than two minutes until all voters fetch every second again.
    holds = {"no-leader.hold": 2, "no-leader.still_hold": 2, "failure-tolerance.hold": SLOW_START_S}
    monitor.start_scenario({**holds, "no-leader.still": 2, "ages.fetch": 1})

    with injected(FOLLOWERS_PAUSED, lab) as (stalled,):
        fired = monitor.expect(stalled)
    monitor.wait_for("no-leader", "resolved")

    assert f". Controller {leader} leads in epoch {fired.evidence['leader_epoch']}, with " in fired.summary
    assert (fired.evidence["leader"], fired.evidence["majority"]) == (leader, 3)
    assert fired.evidence["voters_in_sync"] in (1, 2), "on a busy machine a running voter may seem not to fetch"
    assert monitor.rules == {"no-leader"}


def test_followers_that_run_in_bursts_make_commits_slow(lab: Lab, monitor: MonitoredCluster) -> None:
    leader, followers = lab.leader, lab.followers
    # How long the leader took while the nodes started counts for half a minute.
    monitor.wait_for_quorum(lambda quorum: quorum.commit_wait is not None and not quorum.commit_wait.answer_ms)
    monitor.start_scenario({"commits-slow.hold": 1})

    # A burst is shorter than the age of a fetch: each follower is in sync.
    with run_in_bursts(lab, *followers):
        fired = monitor.wait_for("commits-slow", within_s=90)
    monitor.wait_for("commits-slow", "resolved", within_s=90)

    assert fired.evidence["leader"] == leader
    assert f"The leader, controller {leader}, answers in time." in fired.summary
    late = fired.summary.partition(" are late: ")[2]
    assert all(f"{node} (" in late for node in followers[:2]), fired.summary
    assert monitor.rules == {"commits-slow"}


def test_a_leader_that_runs_in_bursts_answers_late(lab: Lab, monitor: MonitoredCluster) -> None:
    """No voter lags: records are committed as soon as the leader gets to them."""
    leader = lab.leader
    monitor.wait_for_quorum(lambda quorum: quorum.commit_wait is not None and not quorum.commit_wait.answer_ms)
    monitor.start_scenario({"leader-slow.hold": 1})

    # A burst is shorter than the fetch timeout: nobody starts an election.
    with run_in_bursts(lab, leader):
        fired = monitor.wait_for("leader-slow", subject=f"controller {leader}", within_s=90)
        assert lab.leader == leader
    monitor.wait_for("leader-slow", "resolved", subject=f"controller {leader}", within_s=90)

    assert fired.severity == "warning"
    assert monitor.rules <= {"leader-slow", "epoch-churn"}


def test_a_follower_that_runs_in_bursts_follows_late(lab: Lab, monitor: MonitoredCluster) -> None:
    monitor.start_scenario({"leader-slow.hold": 5, "commits-slow.hold": SLOW_START_S})
    follower = lab.followers[0]

    with run_in_bursts(lab, follower):
        fired = monitor.wait_for("leader-slow", subject=f"voter {follower}", within_s=120)
    monitor.wait_for("leader-slow", "resolved", subject=f"voter {follower}", within_s=120)

    assert fired.severity == "warning"


def test_uncommitted_voter_removal_then_even_number_of_voters(lab: Lab, monitor: MonitoredCluster) -> None:
    leader, (one, other, _, leaving) = lab.leader, lab.followers
    directory = lab.node(leaving).directory_id
    # The tool gets the leader's endpoint only: a paused node accepts its connection and never answers.
    tool = f"kafka-metadata-quorum.sh --bootstrap-controller {lab.node(leader).endpoint} remove-controller"
    # The hold is longer than `silent`: the change may be observed before the paused voters count as not fetching.
    monitor.start_scenario({"voter-change-stuck.hold": 3, "ages.fetch": 1.5})

    with ThreadPoolExecutor(max_workers=1) as pool:
        with pause_nodes(lab, one, other):
            # Three of five voters are a majority. Of the four remaining voters three are needed, and two run.
            line = f"{tool} --controller-id {leaving} --controller-directory-id {directory}"
            removal = pool.submit(lab.run_remedy, line)
            fired = monitor.wait_for("voter-change-stuck")
        monitor.wait_for("voter-change-stuck", "resolved")
        with suppress(LabError):
            # Kafka's tool prints "timed out" after two seconds; the leader continues the change.
            removal.result()

    assert fired.evidence["removing"] == [f"{leaving}-{directory}"]
    assert fired.evidence["adding"] == []
    assert fired.evidence["majority"] == 3
    assert fired.evidence["voters_in_sync"] in (1, 2), "on a busy machine a running voter may seem not to fetch"
    assert monitor.rules == {"voter-change-stuck"}

    lab.await_state(lambda state: leaving not in state.voter_ids, what="the four remaining voters")
    monitor.start_scenario({"quorum-shape.hold": 1})
    fired = monitor.wait_for("quorum-shape")
    lab.add_controller(leaving)
    monitor.wait_for("quorum-shape", "resolved")

    assert fired.severity == "info"
    assert (
        fired.summary
        == "The quorum has 4 voters and tolerates 1 failure. With 3 voters it would tolerate the same number."
    )
    assert monitor.rules == {"quorum-shape"}


@pytest.mark.long
def test_repeated_elections_without_restarts(lab: Lab, monitor: MonitoredCluster) -> None:
    # The window ends after the second election, so the alert resolves by itself.
    monitor.start_scenario({"epoch-churn.hold": 1, "epoch-churn.elections": 2, "epoch-churn.window": 60})

    for _ in range(2):
        leader, followers = lab.leader, lab.followers
        with pause_nodes(lab, leader):
            lab.await_leader(*followers)
    fired = monitor.wait_for("epoch-churn")
    monitor.wait_for("epoch-churn", "resolved", within_s=90)

    elections: Any = fired.evidence["elections"]
    unexplained = [one for one in elections if not one["explained_by_a_restart"]]
    assert len(unexplained) in (2, 3), "a busy machine may cause one more election"
    assert monitor.rules == {"epoch-churn"}


def test_alive_broker_does_not_fetch_the_metadata_log(lab: Lab, monitor: MonitoredCluster) -> None:
    monitor.start_scenario({"observer-lagging.hold": 0, "ages.fetch": 2})

    # The broker counts as alive until its session of half a minute ends.
    with injected(BROKER_PAUSED_IN_SESSION, lab) as (lagging,):
        fired = monitor.expect(lagging)
    monitor.wait_for("observer-lagging", "resolved")

    assert fired.summary.endswith(" It counts as alive and still leads partitions.")
    assert monitor.rules == {"observer-lagging"}


def test_broker_is_made_a_voter_until_the_printed_command_removes_it(lab: Lab, monitor: MonitoredCluster) -> None:
    (broker,) = lab.brokers
    monitor.start_scenario({"voter-without-controller.hold": 1})

    BROKER_MADE_VOTER.inject(lab, [broker])
    (without_controller,) = BROKER_MADE_VOTER.expected([broker])
    fired = monitor.expect(without_controller)
    BROKER_MADE_VOTER.end(lab, [broker], fired.remedy)
    monitor.wait_for("voter-without-controller", "resolved")

    assert broker not in lab.await_state(lambda state: True, what="a leader").voter_ids
    assert monitor.rules == {"voter-without-controller"}
