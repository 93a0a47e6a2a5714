"""KIP-853 voter changes: when they count, for which replicas, and a removed leader, with the monitor running."""

import pytest

from tests.simulation.controlled_simulation import ControlledSimulation
from tests.simulation.raft_messages import FetchRequest
from tests.simulation.replica import FETCH_TIMEOUT_MS


@pytest.mark.kip("A009", "A023", "A045")
def test_a_replica_uses_a_voter_change_as_soon_as_it_has_the_record() -> None:
    simulation = ControlledSimulation(3)
    leader, (one, other) = simulation.leader, simulation.followers
    fourth = simulation.observer()
    before = leader.log.keys
    simulation.network.one_way |= {(other.id, leader.id), (fourth.id, leader.id)}
    simulation.run_for(0.5)
    assert simulation.add(fourth)
    simulation.until(lambda: fourth.key in one.log.keys, 2)

    assert one.high_watermark <= leader.log.sets[-1][0], "it is not committed"
    assert leader.log.keys == one.log.keys == before | {fourth.key}
    assert other.log.keys == before
    assert simulation.visible_voters == before, "the monitor does not have it yet"
    simulation.network.restore()
    simulation.run_for(8)
    assert simulation.visible_voters == before | {fourth.key}


@pytest.mark.kip("A011", "A040", "D074")
def test_a_leader_commits_by_a_majority_of_its_own_newest_set() -> None:
    simulation = ControlledSimulation(3)
    leader, (one, other) = simulation.leader, simulation.followers
    fourth = simulation.observer()
    other.stop()
    simulation.run_for(1)
    mark = leader.high_watermark
    simulation.run_for(1)
    assert leader.high_watermark > mark, "two of three commit"

    simulation.network.one_way |= {(fourth.id, leader.id)}
    simulation.run_for(0.5)
    assert simulation.add(fourth)
    mark = leader.high_watermark
    simulation.run_for(1.5)

    assert leader.high_watermark == mark, "three of four are needed from the append on"
    ends = sorted((len(leader.log), leader.progress[one.key].end_offset, 0, 0))
    assert leader.high_watermark < ends[2]


@pytest.mark.kip("A025")
def test_a_removal_reduces_the_majority_at_once() -> None:
    simulation = ControlledSimulation(4)
    leader, (_, gone, away) = simulation.leader, simulation.followers
    gone.stop()
    away.stop()
    simulation.run_for(0.5)
    mark = leader.high_watermark
    simulation.run_for(1)
    assert leader.high_watermark == mark, "two of four commit nothing"

    assert simulation.remove(gone)
    simulation.run_for(1)

    assert leader.high_watermark > leader.log.sets[-1][0], "two of three do"


@pytest.mark.kip("A021", "A076", "D064", "K044", "K045")
def test_a_voter_change_needs_the_previous_one_and_an_entry_of_the_epoch_committed() -> None:
    simulation = ControlledSimulation(3)
    old, (one, other) = simulation.leader, simulation.followers
    simulation.network.one_way |= {(node.id, old.id) for node in (one, other)}
    simulation.run_for(0.3)
    mark = old.high_watermark
    assert simulation.remove(other)
    assert not simulation.remove(one), "the first change is not committed"
    simulation.network.one_way.clear()
    simulation.until(lambda: old.high_watermark > old.log.sets[-1][0], 5)
    assert old.high_watermark > mark
    simulation.run_for(2)
    assert simulation.visible_voters == {old.key, one.key}

    simulation.network.one_way |= {(one.id, old.id)}
    simulation.run_for(0.3)
    old.stop()
    fourth = simulation.nodes[other.id - 1]
    simulation.network.one_way.clear()
    old.start(simulation.now_ms)
    simulation.until(lambda: simulation.leading is not None, 12)
    new = simulation.leader
    if new.high_watermark <= new.epoch_start:
        assert not simulation.add(fourth), "nothing of this epoch is committed"
        assert new.high_watermark <= new.epoch_start
    simulation.until(lambda: new.high_watermark > new.epoch_start, 5)
    assert simulation.add(fourth)


@pytest.mark.kip("A042", "A077", "A082", "A076")
def test_a_removed_leader_leads_without_its_own_vote_until_its_removal_is_committed() -> None:
    simulation = ControlledSimulation(3)
    leader, (one, other) = simulation.leader, simulation.followers
    simulation.network.one_way |= {(other.id, leader.id)}
    simulation.run_for(0.3)
    assert simulation.remove(leader)
    at = leader.log.sets[-1][0]
    simulation.until(lambda: len(one.log) > at, 2)
    assert leader.leads, "a leader whose removal is not committed continues to lead"
    assert leader.high_watermark <= at, "itself and one of {one, other} are no majority"
    served = leader.handle_fetch(
        simulation.now_ms, FetchRequest(one.key, leader.epoch, at, leader.log.entries[at - 1].epoch)
    )
    assert served.served
    assert served.entries

    simulation.network.one_way.clear()
    took = simulation.until(lambda: not leader.leads, 3)
    assert leader.high_watermark > at
    simulation.until(lambda: simulation.leading in (one, other), FETCH_TIMEOUT_MS / 1_000)
    simulation.run_for(10)

    assert took < 3
    assert simulation.visible_voters == {one.key, other.key}
    assert not simulation.is_firing("no-leader"), "a planned change causes no alert"


@pytest.mark.kip("A058")
def test_a_new_voter_starts_an_election_after_its_fetch_timeout() -> None:
    simulation = ControlledSimulation(2)
    leader, (second,) = simulation.leader, simulation.followers
    third = simulation.observer()
    assert simulation.add(third)
    simulation.until(lambda: third.key in third.log.keys, 3)
    assert third.high_watermark <= len(third.log)
    simulation.run_for(10)
    assert not third.prospective, "every response resets the timer"
    leader.stop()
    second.stop()

    simulation.until(lambda: third.prospective, 5)


@pytest.mark.kip("A058", "D081")
@pytest.mark.parametrize("compacted", [False, True])
def test_a_new_replica_with_an_empty_log_fetches_from_offset_0_or_the_snapshot(compacted: bool) -> None:
    simulation = ControlledSimulation(3)
    simulation.run_for(20)
    leader = simulation.leader
    if compacted:
        leader.log.start = leader.log.stable_end(leader.high_watermark)
    fourth = simulation.observer()

    assert fourth.log.start == (leader.log.start if compacted else 0)
    assert fourth.log.entries[:40] == leader.log.entries[:40]
    simulation.until(lambda: fourth.key in leader.progress, 3)
    assert simulation.leader is leader


@pytest.mark.kip("A030")
def test_a_static_quorum_has_no_voters_record_until_it_is_upgraded() -> None:
    simulation = ControlledSimulation(3, static=True)
    simulation.run_for(3)
    quorum = simulation.checker.monitor.machine.quorum()
    assert (quorum.kraft_version or 0, quorum.committed) == (0, None)
    assert quorum.poll is not None
    assert all(row.key.directory_id is None for row in quorum.poll.voters)
    assert not simulation.remove(simulation.followers[0]), "UNSUPPORTED_VERSION"

    while not simulation.activity._upgrade(simulation.now_ms, simulation.leader):
        simulation.run_for(0.5)
    simulation.run_for(3)

    quorum = simulation.checker.monitor.machine.quorum()
    assert quorum.kraft_version == 1
    assert simulation.visible_voters == {node.key for node in simulation.nodes}
    assert quorum.committed is not None
    assert {voter.endpoints[0] for voter in quorum.committed.voters} == {node.endpoint for node in simulation.nodes}
