"""KIP-595 and KIP-856, elections: who stands, who votes for whom, when a leader steps down. The monitor looks on.

Each test plays on the simulated quorum, whose laws and whose monitor are judged at every step.
"""

import pytest

from rules.model.identifiers import NodeId
from tests.simulation.controller import CHECK_QUORUM_MS
from tests.simulation.raft_messages import BeginQuorumEpoch, Fetched, Vote
from tests.simulation.replica import FETCH_TIMEOUT_MS
from tests.simulation.scripted_quorum import Scene


@pytest.mark.kip("A029", "D041")
def test_voters_stand_when_no_fetch_was_answered_for_the_fetch_timeout() -> None:
    scene = Scene(3)
    old, epoch = scene.leader, scene.leader.epoch
    old.stop()

    scene.seconds(FETCH_TIMEOUT_MS / 1_000 - 0.5)
    assert scene.leading is None
    assert all(not node.candidate and node.epoch == epoch for node in scene.nodes)
    scene.until(lambda: scene.leading is not None, 10)
    scene.seconds(3)

    assert scene.judge.watch.machine.quorum().leader_id == scene.leader.id != old.id


@pytest.mark.kip("D041")
def test_who_got_no_majority_stands_again_after_the_election_timeout() -> None:
    scene = Scene(3)
    scene.leader.stop()
    one, other = scene.followers if scene.leading else [node for node in scene.nodes if node.up]
    other.stop()
    scene.seconds(20)
    assert not one.leads
    assert one.prospective, "it asks again and again"
    other.start(scene.now_ms)

    scene.until(lambda: scene.leading is not None, 8)


@pytest.mark.kip("D041", "D060", "D061")
def test_a_leader_that_ends_its_epoch_names_the_longest_log_and_that_one_stands_at_once() -> None:
    scene = Scene(5)
    leader = scene.leader
    _, *behind = scene.followers
    for node in behind[1:]:
        scene.network.one_way |= {(node.id, leader.id)}
    scene.seconds(1.5)
    scene.network.one_way.clear()
    longest = max(scene.followers, key=lambda node: (leader.progress[node.key].end_offset, -node.id))
    leader.resign(scene.now_ms)
    leader.stop()

    took = scene.until(lambda: scene.leading is not None, 1.9)

    assert took < FETCH_TIMEOUT_MS / 1_000, "an unplanned change takes the fetch timeout first"
    assert scene.leader is longest


@pytest.mark.kip("D042")
def test_without_a_random_wait_two_of_three_would_vote_for_themselves_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def elected(seconds: float) -> bool:
        leader = scene.leader
        left = [node for node in scene.nodes if node is not leader]
        scene.until(lambda: len({len(node.log) for node in scene.nodes}) == 1, 20)
        leader.stop()
        scene.seconds(1)
        for node in left:
            node.deadline_ms = scene.now_ms + 2_500
        scene._agenda[:] = [each for each in scene._agenda if each[2] != "wake"]
        for node in left:
            scene._plan(100, "wake", node.id - 1)
        scene.seconds(seconds)
        return scene.leading is not None

    scene = Scene(3)
    assert elected(15)

    scene = Scene(3)
    monkeypatch.setattr(scene.random, "randint", lambda low, high: (low + high) // 2)
    assert not elected(60)
    assert scene.told("no-leader")


@pytest.mark.kip("A008", "A010")
def test_a_candidate_needs_a_majority_of_its_own_voter_set_and_only_voters_stand() -> None:
    scene = Scene(3)
    leader, (stays, gone) = scene.leader, scene.followers
    watcher = scene.observer()
    scene.cut(leader, watcher)
    assert scene.remove(gone)
    assert leader.log.keys == {leader.key, stays.key}, "two of two by its own set"
    assert stays.log.keys == {leader.key, stays.key, gone.key}, "two of three by theirs"

    scene.seconds(12)

    assert scene.leader in (stays, gone)
    assert not leader.leads
    assert not watcher.candidate
    assert not watcher.prospective
    assert watcher.epoch <= leader.epoch, "an observer stands for nothing, however long it hears no leader"


@pytest.mark.kip("A037", "A038", "A087", "D051", "K007")
@pytest.mark.parametrize("strangers", ["voted for", "refused"])
def test_a_vote_for_or_by_a_stranger_is_what_saves_a_change_left_half_done(strangers: str) -> None:
    """The leader of two adds a third and dies when only the second has the record: of three, two must vote."""
    faults = frozenset({"refuses-strangers"} if strangers == "refused" else ())
    scene = Scene(2, faults=faults)
    leader, (second,) = scene.leader, scene.followers
    third = scene.observer()
    scene.network.one_way |= {(third.id, leader.id), (leader.id, third.id)}
    assert scene.add(third)
    scene.until(lambda: third.key in second.log.keys, 3)
    assert third.key not in third.log.keys, "it does not know yet that it is a voter"
    leader.stop()

    scene.seconds(25)

    assert (scene.leading is second) is (strangers == "voted for")
    assert scene.told("no-leader") is (strangers == "refused")


@pytest.mark.kip("A039", "A087")
def test_nobody_votes_for_a_shorter_log_or_twice_in_an_epoch_not_even_after_a_crash() -> None:
    scene = Scene(3)
    leader, (one, other) = scene.leader, scene.followers
    epoch = leader.epoch + 1
    short = Vote(other.key, one.key, epoch, other.log.last_epoch, len(one.log) - 1, pre=False)
    one.leader = None
    one.hear(scene.now_ms, other, short)
    assert one.voted is None

    one.hear(scene.now_ms, other, short._replace(end_offset=len(one.log)))
    assert one.voted == other.key
    one.start(scene.now_ms)
    one.hear(scene.now_ms, leader, Vote(leader.key, one.key, epoch, 99, 99_999, pre=False))
    assert one.voted == other.key


@pytest.mark.kip("A088", "A071")
def test_who_is_asked_under_another_directory_id_refuses_and_the_leader_asks_again() -> None:
    scene = Scene(3)
    leader, (one, _) = scene.leader, scene.followers
    old = one.key
    one.lose_disk("new")
    one.up, one.leader = True, None
    asked = Vote(leader.key, old, leader.epoch + 1, 99, 99_999, pre=False)
    one.hear(scene.now_ms, leader, asked)
    one.hear(scene.now_ms, leader, BeginQuorumEpoch(old, leader.id, leader.epoch + 1))
    assert (one.epoch, one.voted, one.leader) == (0, None, None)

    one.start(scene.now_ms)
    scene.seconds(20)

    assert one.leader == leader.id, "it finds the leader by its own fetch"
    assert not scene.told("no-leader")
    assert scene.leading is leader


@pytest.mark.kip("D044")
@pytest.mark.parametrize("controllers", [1, 3])
def test_a_leader_that_no_majority_fetches_from_steps_down_and_follows_a_newer_one(controllers: int) -> None:
    scene = Scene(controllers)
    leader = scene.leader
    scene.cut(leader)
    scene.seconds(CHECK_QUORUM_MS / 1_000 - 1)
    assert leader.leads
    scene.seconds(10)
    assert leader.leads is (controllers == 1), "a single voter hears its majority always"
    scene.network.heal()
    scene.seconds(8)

    assert leader.leads or leader.leader == scene.leader.id
    assert scene.judge.watch.machine.quorum().leader_id == scene.leader.id


@pytest.mark.kip("D057", "D059", "D076")
def test_news_of_a_newer_epoch_makes_a_follower_that_fetches_from_who_leads_it() -> None:
    scene = Scene(3)
    leader, (one, other) = scene.leader, scene.followers
    one.hear(scene.now_ms, other, BeginQuorumEpoch(one.key, other.id, leader.epoch + 5))
    assert (one.leader, one.epoch) == (other.id, leader.epoch + 5)
    assert not one.candidate

    leader.hear(scene.now_ms, one, BeginQuorumEpoch(leader.key, other.id, leader.epoch + 5))
    assert not leader.leads, "fenced: its epoch is over"
    assert leader.leader == other.id

    one.hear(scene.now_ms, other, Fetched(NodeId(leader.id), one.epoch + 1))
    assert one.leader == leader.id, "the answer names the leader, and it is followed"
