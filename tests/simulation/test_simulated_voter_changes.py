"""KIP-856 and KIP-853, voter changes: when they count, for whom, what a removed leader does. The monitor looks on."""

import pytest

from tests.simulation.raft_messages import Fetch
from tests.simulation.replica import FETCH_TIMEOUT_MS
from tests.simulation.scripted_quorum import Scene


@pytest.mark.kip("A009", "A023", "A045")
def test_whoever_reads_a_change_goes_by_it_at_once_and_others_do_not_yet() -> None:
    scene = Scene(3)
    leader, (one, other) = scene.leader, scene.followers
    fourth = scene.observer()
    before = leader.log.keys
    scene.network.one_way |= {(other.id, leader.id), (fourth.id, leader.id)}
    scene.seconds(0.5)
    assert scene.add(fourth)
    scene.until(lambda: fourth.key in one.log.keys, 2)

    assert one.high_watermark <= leader.log.sets[-1][0], "it is not committed"
    assert leader.log.keys == one.log.keys == before | {fourth.key}
    assert other.log.keys == before
    assert scene.shown == before, "and for the monitor it is none yet"
    scene.network.heal()
    scene.seconds(8)
    assert scene.shown == before | {fourth.key}


@pytest.mark.kip("A011", "A040", "D074")
def test_a_leader_commits_by_a_majority_of_its_own_newest_set() -> None:
    scene = Scene(3)
    leader, (one, other) = scene.leader, scene.followers
    fourth = scene.observer()
    other.stop()
    scene.seconds(1)
    mark = leader.high_watermark
    scene.seconds(1)
    assert leader.high_watermark > mark, "two of three commit"

    scene.network.one_way |= {(fourth.id, leader.id)}
    scene.seconds(0.5)
    assert scene.add(fourth)
    mark = leader.high_watermark
    scene.seconds(1.5)

    assert leader.high_watermark == mark, "three of four are needed from the append on"
    ends = sorted((len(leader.log), leader.progress[one.key].end_offset, 0, 0))
    assert leader.high_watermark < ends[2]


@pytest.mark.kip("A025")
def test_a_removal_makes_the_majority_smaller_at_once() -> None:
    scene = Scene(4)
    leader, (_, gone, away) = scene.leader, scene.followers
    gone.stop()
    away.stop()
    scene.seconds(0.5)
    mark = leader.high_watermark
    scene.seconds(1)
    assert leader.high_watermark == mark, "two of four commit nothing"

    assert scene.remove(gone)
    scene.seconds(1)

    assert leader.high_watermark > leader.log.sets[-1][0], "two of three do"


@pytest.mark.kip("A021", "A076", "D064", "K044", "K045")
def test_no_change_before_the_one_before_and_an_entry_of_the_leaders_own_epoch_are_committed() -> None:
    scene = Scene(3)
    old, (one, other) = scene.leader, scene.followers
    scene.network.one_way |= {(node.id, old.id) for node in (one, other)}
    scene.seconds(0.3)
    mark = old.high_watermark
    assert scene.remove(other)
    assert not scene.remove(one), "the first change is not committed"
    scene.network.one_way.clear()
    scene.until(lambda: old.high_watermark > old.log.sets[-1][0], 5)
    assert old.high_watermark > mark
    scene.seconds(2)
    assert scene.shown == {old.key, one.key}

    scene.network.one_way |= {(one.id, old.id)}
    scene.seconds(0.3)
    old.stop()
    fourth = scene.nodes[other.id - 1]
    scene.network.one_way.clear()
    old.start(scene.now_ms)
    scene.until(lambda: scene.leading is not None, 12)
    new = scene.leader
    if new.high_watermark <= new.epoch_start:
        assert not scene.add(fourth), "nothing of this epoch is committed"
        assert new.high_watermark <= new.epoch_start
    scene.until(lambda: new.high_watermark > new.epoch_start, 5)
    assert scene.add(fourth)


@pytest.mark.kip("A042", "A077", "A082", "A076")
def test_a_leader_that_is_removed_serves_on_without_counting_itself_and_resigns_when_it_is_committed() -> None:
    scene = Scene(3)
    leader, (one, other) = scene.leader, scene.followers
    scene.network.one_way |= {(other.id, leader.id)}
    scene.seconds(0.3)
    assert scene.remove(leader)
    at = leader.log.sets[-1][0]
    scene.until(lambda: len(one.log) > at, 2)
    assert leader.leads, "who reads its own removal leads on"
    assert leader.high_watermark <= at, "itself and one of {one, other} are no majority"
    served = leader._serve(scene.now_ms, Fetch(one.key, leader.epoch, at, leader.log.entries[at - 1].epoch))
    assert served.served
    assert served.entries

    scene.network.one_way.clear()
    took = scene.until(lambda: not leader.leads, 3)
    assert leader.high_watermark > at
    scene.until(lambda: scene.leading in (one, other), FETCH_TIMEOUT_MS / 1_000)
    scene.seconds(10)

    assert took < 3
    assert scene.shown == {one.key, other.key}
    assert not scene.told("no-leader"), "a planned change is no incident"


@pytest.mark.kip("A058")
def test_a_new_voter_stands_when_its_fetch_timer_expires_and_answers_set_that_back() -> None:
    scene = Scene(2)
    leader, (second,) = scene.leader, scene.followers
    third = scene.observer()
    assert scene.add(third)
    scene.until(lambda: third.key in third.log.keys, 3)
    assert third.high_watermark <= len(third.log)
    scene.seconds(10)
    assert not third.prospective, "every answer sets the timer back"
    leader.stop()
    second.stop()

    scene.until(lambda: third.prospective, 5)


@pytest.mark.kip("A058", "D081")
@pytest.mark.parametrize("compacted", [False, True])
def test_a_new_member_with_an_empty_log_fetches_from_offset_0_or_gets_the_snapshot(compacted: bool) -> None:
    scene = Scene(3)
    scene.seconds(20)
    leader = scene.leader
    if compacted:
        leader.log.start = leader.log.stable_end(leader.high_watermark)
    fourth = scene.observer()

    assert fourth.log.start == (leader.log.start if compacted else 0)
    assert fourth.log.entries[:40] == leader.log.entries[:40]
    scene.until(lambda: fourth.key in leader.progress, 3)
    assert scene.leader is leader


@pytest.mark.kip("A030")
def test_a_static_quorums_voters_stand_in_no_record_until_it_is_upgraded() -> None:
    scene = Scene(3, static=True)
    scene.seconds(3)
    quorum = scene.judge.watch.machine.quorum()
    assert (quorum.kraft_version or 0, quorum.committed) == (0, None)
    assert quorum.poll is not None
    assert all(row.key.directory_id is None for row in quorum.poll.voters)
    assert not scene.remove(scene.followers[0]), "UNSUPPORTED_VERSION"

    while not scene.activity._upgrade(scene.now_ms, scene.leader):
        scene.seconds(0.5)
    scene.seconds(3)

    quorum = scene.judge.watch.machine.quorum()
    assert quorum.kraft_version == 1
    assert scene.shown == {node.key for node in scene.nodes}
    assert quorum.committed is not None
    assert {voter.endpoints[0] for voter in quorum.committed.voters} == {node.endpoint for node in scene.nodes}
