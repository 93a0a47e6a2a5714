"""Unclean elections are kept by topic, from the log; snapshots do not hold them."""

import pytest

from connectors.observations.log_event import ElrCleared, TopicCreated, TopicRemoved
from rules.facts.quorum import Facts
from rules.model.history import UncleanElections
from rules.model.identifiers import NodeId, TopicId
from rules.model.quorum import Quorum
from streaming.replay.recent_history import PARTITIONS, REMEMBERED_MS, TOPICS
from tests.scripts.log_script import LogScript, again, apply, ids, machine


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


def leaderless(script: LogScript, number: int, *, elr: tuple[int, ...], last: int) -> None:
    """The last in-sync replica was fenced: with ELR (KIP-966) the ISR is empty, and Kafka stores the last leader."""
    script.change("orders", number, isr=(), elr=elr, last_known_elr=(last,), leaderless=True)


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
    assert Facts(quorum).only_copies == {}


def test_any_replica_may_have_been_eligible_if_the_elr_was_cleared_before_the_unclean_election() -> None:
    """min.insync.replicas and unclean.leader.election.enable were set together, for a partition without a leader."""
    script, replay = with_orders(), machine()
    for broker in (101, 102, 103):
        script.broker(broker, fenced=broker == 101)
    script.change("orders", 0, isr=(101,))
    leaderless(script, 0, elr=(101,), last=101)
    script.write(ElrCleared(at=script.at(), topic="orders"))
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    assert NodeId(101) in Facts(apply(replay, [script.read()])).only_copies

    script.change("orders", 0, isr=(102, 103), recovering=False)
    quorum = apply(replay, [script.read()])
    assert Facts(quorum).only_copies.keys() == {101}, "103 runs"
    assert of_orders(quorum).passed_over == ids(101, 103)


def last_leader_elected_while_another_is_eligible(script: LogScript) -> None:
    script.change("orders", 0, isr=(103,), elr=(101,), leader=103)
    leaderless(script, 0, elr=(101, 103), last=103)
    script.change("orders", 0, elr=(101,))
    script.change("orders", 0, isr=(103,), elr=(), leader=103, last_known_elr=(), recovering=True)


@pytest.mark.parametrize("later_ms", [None, 1_001])
def test_the_last_leader_that_is_elected_while_another_replica_is_eligible_passes_it_over(later_ms: int | None) -> None:
    """By hand or by unclean.leader.election.enable: 101 is down, and has what 103 had not flushed before its crash."""
    script, replay = with_orders(), machine()
    script.broker(101)
    last_leader_elected_while_another_is_eligible(script)
    apply(replay, [script.read()])
    quorum = replay.quorum()
    assert NodeId(101) in Facts(quorum).only_copies
    if later_ms is not None:
        script.now_ms += later_ms
        script.broker(101)
        quorum = apply(replay, [script.read()])
    one, (recovery,) = of_orders(quorum), quorum.recovering

    assert (one.elections, one.last_leaders, one.passed_over) == (1, 0, ids(101))
    assert (recovery.last_leader, recovery.previous_elr) == (False, ids(101))


@pytest.mark.parametrize(("after_ms", "elections"), [(600_000, [2]), (600_001, [1, 1])])
def test_a_repeat_after_more_than_ten_minutes_is_another_entry_and_both_are_kept(
    after_ms: int, elections: list[int]
) -> None:
    script, replay = with_orders(), machine()
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    script.now_ms += after_ms
    script.change("orders", 0, isr=(103,), leader=103)

    assert [one.elections for one in apply(replay, [script.read()]).history.unclean] == elections


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
