"""Unclean elections are kept by topic, from the log; snapshots do not hold them."""

from dataclasses import replace

import pytest

from connectors.observations.log_event import ElrCleared, LogEvent, TopicCreated, TopicRemoved
from rules.analysis.start_conditions import only_copies
from rules.model.history import UncleanElections
from rules.model.identifiers import NodeId, TopicId
from rules.model.quorum import Quorum
from streaming.replay.recent_history import EPISODE_MS, PARTITIONS, REMEMBERED_MS, TOPICS
from tests.unit.streaming.replay.log_script import LogScript, again, apply, ids, machine

pytestmark = pytest.mark.kip("B002", "B004", "B005", "B010", "B036", "B039", "B048")


def with_orders() -> LogScript:
    script = LogScript()
    script.leader(1)
    script.topic("orders")
    for number in range(3):
        script.partition("orders", number, 101, 102, 103)
    return script


def of_orders(quorum: Quorum) -> UncleanElections:
    (one,) = quorum.history.unclean
    return one


def test_only_an_election_after_what_the_rules_saw_has_the_time_at_which_they_saw_it() -> None:
    script, replay = with_orders(), machine()
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    first = of_orders(apply(replay, [script.read()]))
    assert first.read_timestamp_ms is None, "the log is read for the first time"
    script.change("orders", 0, isr=(103,), leader=103)
    script.partition("orders", 5, 101)
    second = apply(replay, [script.read()])
    assert of_orders(second).read_timestamp_ms == second.newest_timestamp_ms
    assert of_orders(again(replay.to_bytes()).quorum()) == of_orders(second)


def leaderless(script: LogScript, number: int, *, elr: tuple[int, ...], last: int) -> None:
    """The last in-sync replica was fenced: with ELR (KIP-966) the ISR is empty, and Kafka stores the last leader."""
    change = script.change("orders", number, isr=(), elr=elr, last_known_elr=(last,), leader=-1)
    script.events[-1] = replace(change, leader=None)


def test_the_last_leader_that_restarts_after_a_crash_passes_over_no_other_replica() -> None:
    """The records of Kafka 4.3.1 with eligible.leader.replicas.version 1: see tests/kafka/test_alert_texts_live.py."""
    script, replay = with_orders(), machine()
    script.partition("orders", 3, 101)
    # The only replica: its broker was killed and starts again, which empties the ELR.
    leaderless(script, 3, elr=(101,), last=101)
    script.change("orders", 3, elr=())
    script.change("orders", 3, isr=(101,), leader=101, last_known_elr=(), recovering=True)
    # All brokers were killed at once: 103 led last, and is elected by the record that takes 101 out of the ELR.
    last_leader_elected_while_another_is_eligible(script)
    script.broker(101)
    quorum = apply(replay, [script.read()])
    one = of_orders(quorum)

    assert (one.elections, one.last_leaders, one.passed_over, one.most_replicas) == (2, 2, (), 3)
    assert [each.last_leader for each in quorum.recovering] == [True, True]
    assert only_copies(quorum) == {}


@pytest.mark.kip("B002")
def test_any_replica_may_have_been_eligible_if_the_elr_was_cleared_before_the_unclean_election() -> None:
    """min.insync.replicas and unclean.leader.election.enable were set together, for a partition without a leader."""
    script, replay = with_orders(), machine()
    for broker in (101, 102, 103):
        script.broker(broker, fenced=broker == 101)
    script.change("orders", 0, isr=(101,))
    leaderless(script, 0, elr=(101,), last=101)
    script.write(ElrCleared(at=script.at(), topic="orders"))
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    assert NodeId(101) in only_copies(apply(replay, [script.read()]))

    script.change("orders", 0, isr=(102, 103), recovering=False)
    quorum = apply(replay, [script.read()])
    assert only_copies(quorum).keys() == {101}, "103 runs"
    assert of_orders(quorum).passed_over == ids(101, 103)


def last_leader_elected_while_another_is_eligible(script: LogScript) -> None:
    script.change("orders", 0, isr=(103,), elr=(101,), leader=103)
    leaderless(script, 0, elr=(101, 103), last=103)
    script.change("orders", 0, elr=(101,))
    script.change("orders", 0, isr=(103,), elr=(), leader=103, last_known_elr=(), recovering=True)


@pytest.mark.kip("B002")
@pytest.mark.parametrize("later_ms", [None, 1_001])
def test_the_last_leader_that_is_elected_while_another_replica_is_eligible_passes_it_over(later_ms: int | None) -> None:
    """By hand or by unclean.leader.election.enable: 101 is down, and has what 103 had not flushed before its crash."""
    script, replay = with_orders(), machine()
    script.broker(101)
    last_leader_elected_while_another_is_eligible(script)
    apply(replay, [script.read()])
    quorum = replay.quorum()
    assert NodeId(101) in only_copies(quorum)
    if later_ms is not None:
        script.now_ms += later_ms
        script.broker(101)
        quorum = apply(replay, [script.read()])
    one, (recovery,) = of_orders(quorum), quorum.recovering

    assert (one.elections, one.last_leaders, one.passed_over) == (1, 0, ids(101))
    assert (recovery.last_leader, recovery.previous_elr) == (False, ids(101))


def test_the_replicas_of_a_topic_are_those_of_its_largest_partition() -> None:
    script, replay = with_orders(), machine()
    script.partition("orders", 3, 101)
    for number in (0, 3):
        script.change("orders", number, isr=(102,), leader=102, recovering=True)
    assert of_orders(apply(replay, [script.read()])).most_replicas == 3


@pytest.mark.kip("B002")
def test_a_replica_that_is_elected_instead_of_the_last_leader_passes_it_over() -> None:
    script, replay = with_orders(), machine()
    script.change("orders", 0, isr=(101,), elr=())
    leaderless(script, 0, elr=(101,), last=101)
    # Broker 101 registered after its crash, and crashed again.
    script.change("orders", 0, elr=())
    script.change("orders", 0, isr=(102,), leader=102, last_known_elr=(), recovering=True)
    quorum = apply(replay, [script.read()])
    (recovery,) = quorum.recovering

    assert (of_orders(quorum).last_leaders, of_orders(quorum).passed_over) == (0, ids(101))
    assert (recovery.last_leader, recovery.previous_elr) == (False, ids(101))


def test_a_second_election_while_recovering_counts_only_if_it_passes_over_the_last_leader() -> None:
    script, replay = with_orders(), machine()
    for elected in (101, 102):
        script.change("orders", 0, isr=(101,), elr=())
        leaderless(script, 0, elr=(101,), last=101)
        script.change("orders", 0, elr=())
        recovering = True if elected == 101 else None
        script.change("orders", 0, isr=(elected,), leader=elected, last_known_elr=(), recovering=recovering)
    leaderless(script, 0, elr=(102,), last=102)
    script.change("orders", 0, elr=())
    script.change("orders", 0, isr=(102,), leader=102, last_known_elr=())
    quorum = apply(replay, [script.read()])
    (recovery,) = quorum.recovering

    one = of_orders(quorum)
    assert (one.elections, one.last_leaders, one.passed_over) == (2, 1, ids(101))
    assert (recovery.last_leader, recovery.previous_elr) == (False, ids(101)), "the records of 101 stay lost"


@pytest.mark.parametrize(("later_ms", "elections"), [(EPISODE_MS, [2]), (EPISODE_MS + 1, [1, 1])])
def test_elections_of_a_topic_are_summed_only_if_they_follow_each_other_soon(
    later_ms: int, elections: list[int]
) -> None:
    script, replay = with_orders(), machine()
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    apply(replay, [script.read()])
    script.change("orders", 0, isr=(102, 103), recovering=False)
    script.now_ms += later_ms - 1_000
    script.change("orders", 0, isr=(101,), leader=101, recovering=True)
    remembered = apply(again(replay.to_bytes()), [script.read()]).history.unclean

    assert [one.elections for one in remembered] == elections
    assert remembered[-1].last_timestamp_ms - remembered[0].first_timestamp_ms == later_ms


@pytest.mark.kip("B045")
def test_a_recovery_that_ends_with_a_reassignment_is_no_election() -> None:
    script, replay = with_orders(), machine()
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    script.change("orders", 0, replicas=(103,), isr=(103,), leader=103, recovering=False)
    assert apply(replay, [script.read()]).history.elected_recovered == ()


@pytest.mark.kip("K048")
def test_a_snapshot_adds_and_removes_no_unclean_elections() -> None:
    script, replay = with_orders(), machine()
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    apply(replay, [script.read()])
    records: list[LogEvent] = [script.topic("pay"), script.partition("pay", 0, 101, 102, recovering=True)]
    script.events.clear()
    script.noops(9)
    quorum = apply(replay, script.snapshot(records))
    assert [one.topic for one in quorum.history.unclean] == ["orders"]
    assert [one.topic for one in quorum.recovering] == ["pay"]


def test_many_unclean_elections_do_not_fill_the_state() -> None:
    script, replay, last = LogScript(), machine(), f"t{TOPICS + 4}"
    script.leader(1)
    for number in range(TOPICS + 5):
        script.topic(f"t{number}")
    for number in range(TOPICS + 5):
        script.change(f"t{number}", 0, isr=(102,), leader=102, recovering=True)
    for partition in range(PARTITIONS + 5):
        script.change(last, partition, isr=(102,), leader=102, recovering=True)
    quorum = apply(replay, [script.read()])
    assert len(quorum.history.unclean) == TOPICS
    newest = quorum.history.unclean[-1]
    assert (newest.topic, newest.elections, newest.partitions) == (last, PARTITIONS + 5, tuple(range(PARTITIONS)))

    script.change("t5", 1, isr=(102,), leader=102, recovering=True)
    script.topic("new")
    script.change("new", 0, isr=(102,), leader=102, recovering=True)
    topics = [one.topic for one in apply(replay, [script.read()]).history.unclean]
    assert (topics[0], *topics[-2:]) == ("t7", "t5", "new"), "the one with the oldest election is forgotten"

    script.now_ms += REMEMBERED_MS + 1
    script.change(last, 30, isr=(103,), leader=103, recovering=True)
    later = of_orders(apply(replay, [script.read()]))
    assert (later.topic, later.elections, later.partitions, later.leaders) == (last, 1, (30,), ids(103))
    assert later.first_timestamp_ms == later.last_timestamp_ms


def test_clearing_the_last_known_elr_alone_is_a_change_of_the_partition() -> None:
    script, replay = with_orders(), machine()
    script.change("orders", 0, isr=(102,), elr=(), last_known_elr=(103,), leader=102, recovering=True)
    script.write(ElrCleared(at=script.at(), topic="orders"))
    (recovery,) = apply(replay, [script.read()]).recovering
    assert recovery.partition_epoch == 2


@pytest.mark.parametrize("stored", [False, True])
def test_the_elr_is_cleared_of_the_topic_that_has_the_name_now(stored: bool) -> None:
    script, replay = LogScript(), machine()
    for name in ("orders", "later", "other"):
        script.topic(name)
        script.partition(name, 0, 101, 102, elr=(103,))
    script.write(TopicRemoved(at=script.at(), topic_id=TopicId("id-of-orders")))
    script.write(TopicCreated(at=script.at(), topic_id=TopicId("id-of-later"), name="orders"))
    apply(replay, [script.read()])
    replay = again(replay.to_bytes()) if stored else replay

    def eligible(cleared: str) -> dict[str | None, tuple[NodeId, ...]]:
        script.write(ElrCleared(at=script.at(), topic=cleared))
        apply(replay, [script.read()])
        return {topic.name: topic.partitions[0].elr for topic in replay.log.partitions.topics.values()}

    assert eligible("later") == {"orders": ids(103), "other": ids(103)}, "its former name"
    assert eligible("orders") == {"orders": (), "other": ids(103)}
