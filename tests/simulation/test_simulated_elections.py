"""KIP-595 and KIP-853 elections: candidates, votes, and when a leader resigns, with the monitor running.

Each test runs on the simulated simulation; its invariants and its monitor are checked at every step.
"""

import pytest

from rules.model.identifiers import NodeId
from tests.simulation.controlled_simulation import ControlledSimulation
from tests.simulation.controller import CHECK_QUORUM_MS
from tests.simulation.raft_messages import BeginQuorumEpoch, FetchResponse, VoteRequest
from tests.simulation.replica import FETCH_TIMEOUT_MS


@pytest.mark.kip("A029", "D041")
def test_voters_start_an_election_after_the_fetch_timeout() -> None:
    simulation = ControlledSimulation(3)
    old, epoch = simulation.leader, simulation.leader.epoch
    old.stop()

    simulation.run_for(FETCH_TIMEOUT_MS / 1_000 - 0.5)
    assert simulation.leading is None
    assert all(not node.candidate and node.epoch == epoch for node in simulation.nodes)
    simulation.until(lambda: simulation.leading is not None, 10)
    simulation.run_for(3)

    assert simulation.checker.monitor.machine.quorum().leader_id == simulation.leader.id != old.id


@pytest.mark.kip("D041")
def test_a_candidate_without_a_majority_starts_again_after_the_election_timeout() -> None:
    simulation = ControlledSimulation(3)
    simulation.leader.stop()
    one, other = simulation.followers if simulation.leading else [node for node in simulation.nodes if node.up]
    other.stop()
    simulation.run_for(20)
    assert not one.leads
    assert one.prospective, "it repeats the pre-vote"
    other.start(simulation.now_ms)

    simulation.until(lambda: simulation.leading is not None, 8)


@pytest.mark.kip("D041", "D060", "D061")
def test_a_resigning_leader_names_the_longest_log_which_starts_an_election_at_once() -> None:
    simulation = ControlledSimulation(5)
    leader = simulation.leader
    _, *behind = simulation.followers
    for node in behind[1:]:
        simulation.network.one_way |= {(node.id, leader.id)}
    simulation.run_for(1.5)
    simulation.network.one_way.clear()
    longest = max(simulation.followers, key=lambda node: (leader.progress[node.key].end_offset, -node.id))
    leader.resign(simulation.now_ms)
    leader.stop()

    took = simulation.until(lambda: simulation.leading is not None, 1.9)

    assert took < FETCH_TIMEOUT_MS / 1_000, "an unplanned leader change takes at least the fetch timeout"
    assert simulation.leader is longest


@pytest.mark.kip("D042")
def test_without_a_random_backoff_two_of_three_vote_for_themselves_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    def elected(seconds: float) -> bool:
        leader = simulation.leader
        left = [node for node in simulation.nodes if node is not leader]
        simulation.until(lambda: len({len(node.log) for node in simulation.nodes}) == 1, 20)
        leader.stop()
        simulation.run_for(1)
        for node in left:
            node.deadline_ms = simulation.now_ms + 2_500
        simulation._agenda[:] = [each for each in simulation._agenda if each[2] != "tick"]
        for node in left:
            simulation._schedule(100, "tick", node.id - 1)
        simulation.run_for(seconds)
        return simulation.leading is not None

    simulation = ControlledSimulation(3)
    assert elected(15)

    simulation = ControlledSimulation(3)
    monkeypatch.setattr(simulation.random, "randint", lambda low, high: (low + high) // 2)
    assert not elected(60)
    assert simulation.is_firing("no-leader")


@pytest.mark.kip("A008", "A010")
def test_a_candidate_needs_a_majority_of_its_own_voter_set_and_only_voters_are_candidates() -> None:
    simulation = ControlledSimulation(3)
    leader, (stays, gone) = simulation.leader, simulation.followers
    observer = simulation.observer()
    simulation.isolate_nodes(leader, observer)
    assert simulation.remove(gone)
    assert leader.log.keys == {leader.key, stays.key}, "two of two by its own set"
    assert stays.log.keys == {leader.key, stays.key, gone.key}, "two of three by theirs"

    simulation.run_for(12)

    assert simulation.leader in (stays, gone)
    assert not leader.leads
    assert not observer.candidate
    assert not observer.prospective
    assert observer.epoch <= leader.epoch, "an observer starts no election, however long it has no leader"


@pytest.mark.kip("A037", "A038", "A087", "D051", "K007")
@pytest.mark.parametrize("strangers", ["voted for", "refused"])
def test_votes_of_and_for_unknown_voters_complete_an_unfinished_voter_change(strangers: str) -> None:
    """The leader of two adds a third and stops when only the second has the record: two of three must vote."""
    faults = frozenset({"refuses-strangers"} if strangers == "refused" else ())
    simulation = ControlledSimulation(2, faults=faults)
    leader, (second,) = simulation.leader, simulation.followers
    third = simulation.observer()
    simulation.network.one_way |= {(third.id, leader.id), (leader.id, third.id)}
    assert simulation.add(third)
    simulation.until(lambda: third.key in second.log.keys, 3)
    assert third.key not in third.log.keys, "it does not know yet that it is a voter"
    leader.stop()

    simulation.run_for(25)

    assert (simulation.leading is second) is (strangers == "voted for")
    assert simulation.is_firing("no-leader") is (strangers == "refused")


@pytest.mark.kip("A039", "A087")
def test_no_vote_for_a_shorter_log_or_twice_in_an_epoch_even_after_a_crash() -> None:
    simulation = ControlledSimulation(3)
    leader, (one, other) = simulation.leader, simulation.followers
    epoch = leader.epoch + 1
    short = VoteRequest(other.key, one.key, epoch, other.log.last_epoch, len(one.log) - 1, pre=False)
    one.leader = None
    one.receive(simulation.now_ms, other, short)
    assert one.voted is None

    one.receive(simulation.now_ms, other, short._replace(end_offset=len(one.log)))
    assert one.voted == other.key
    one.start(simulation.now_ms)
    one.receive(simulation.now_ms, leader, VoteRequest(leader.key, one.key, epoch, 99, 99_999, pre=False))
    assert one.voted == other.key


@pytest.mark.kip("A088", "A071")
def test_a_request_with_another_directory_id_is_rejected_and_the_leader_repeats_it() -> None:
    simulation = ControlledSimulation(3)
    leader, (one, _) = simulation.leader, simulation.followers
    old = one.key
    one.lose_disk("new")
    one.up, one.leader = True, None
    request = VoteRequest(leader.key, old, leader.epoch + 1, 99, 99_999, pre=False)
    one.receive(simulation.now_ms, leader, request)
    one.receive(simulation.now_ms, leader, BeginQuorumEpoch(old, leader.id, leader.epoch + 1))
    assert (one.epoch, one.voted, one.leader) == (0, None, None)

    one.start(simulation.now_ms)
    simulation.run_for(20)

    assert one.leader == leader.id, "it finds the leader by its own fetch"
    assert not simulation.is_firing("no-leader")
    assert simulation.leading is leader


@pytest.mark.kip("D044")
@pytest.mark.parametrize("controllers", [1, 3])
def test_a_leader_without_fetches_from_a_majority_resigns_and_follows_a_newer_one(controllers: int) -> None:
    simulation = ControlledSimulation(controllers)
    leader = simulation.leader
    simulation.isolate_nodes(leader)
    simulation.run_for(CHECK_QUORUM_MS / 1_000 - 1)
    assert leader.leads
    simulation.run_for(10)
    assert leader.leads is (controllers == 1), "a single voter is its own majority"
    simulation.network.restore()
    simulation.run_for(8)

    assert leader.leads or leader.leader == simulation.leader.id
    assert simulation.checker.monitor.machine.quorum().leader_id == simulation.leader.id


@pytest.mark.kip("D057", "D059", "D076")
def test_a_newer_epoch_makes_a_controller_follow_its_leader() -> None:
    simulation = ControlledSimulation(3)
    leader, (one, other) = simulation.leader, simulation.followers
    one.receive(simulation.now_ms, other, BeginQuorumEpoch(one.key, other.id, leader.epoch + 5))
    assert (one.leader, one.epoch) == (other.id, leader.epoch + 5)
    assert not one.candidate

    leader.receive(simulation.now_ms, one, BeginQuorumEpoch(leader.key, other.id, leader.epoch + 5))
    assert not leader.leads, "fenced: its epoch is over"
    assert leader.leader == other.id

    one.receive(simulation.now_ms, other, FetchResponse(NodeId(leader.id), one.epoch + 1))
    assert one.leader == leader.id, "the answer names the leader, and it is followed"
