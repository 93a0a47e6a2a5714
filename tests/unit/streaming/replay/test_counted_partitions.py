"""Sums of partitions without a leader, and numbers of log directories: limits, and what is stored."""

import pytest

from connectors.metadata.value_limits import MOST_LOG_DIRECTORIES
from rules.model.identifiers import DirectoryId, Epoch, Millis, NodeId, Offset, TopicId
from rules.model.membership import RecordPosition
from rules.model.quorum import Quorum
from streaming.replay import counted_partitions
from streaming.replay.counted_partitions import CountedPartitions, eligible
from streaming.replay.directory_numbers import MIGRATING, UNASSIGNED, UNASSIGNED_ID, DirectoryNumbers
from streaming.replay.stored_topics import Assignment
from tests.scripts.log_commands import append
from tests.scripts.log_script import again, apply, begun

AT = RecordPosition(offset=Offset(7), leader_epoch=Epoch(1), timestamp_ms=Millis(5_000))
TOPIC = TopicId("orders")
MOST_EXAMPLES = 20


def offline(*holders: int) -> Assignment:
    nodes = tuple(map(NodeId, holders))
    return Assignment(nodes, (), nodes, (), None, 1, 1)


def changed(sums: CountedPartitions, number: int, before: Assignment | None, now: Assignment | None) -> None:
    was, is_ = (eligible(one, DirectoryNumbers()) for one in (before, now))
    sums.changed((TOPIC, number), "orders", (was, before), (is_, now), AT)


def test_more_partitions_than_examples_are_counted() -> None:
    sums = CountedPartitions()
    for number in range(MOST_EXAMPLES + 5):
        changed(sums, number, None, offline(101))
    (one,) = sums.current
    assert (one.partitions, len(one.examples)) == (MOST_EXAMPLES + 5, MOST_EXAMPLES)

    restored = CountedPartitions(sums.current)
    for number in range(MOST_EXAMPLES + 4):
        changed(restored, number, offline(101), None)
    (one,) = restored.current
    assert (one.partitions, one.examples) == (1, ())
    changed(restored, MOST_EXAMPLES + 4, offline(101), None)
    assert restored.current == ()


def test_beyond_the_most_sums_all_partitions_are_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted_partitions, "MOST_SUMS", 2)
    script, replay = begun()
    script.topic("orders")
    for number in range(5):
        script.partition("orders", number, 101 + number)
    apply(replay, [script.read()])
    for number in range(5):
        script.change("orders", number, isr=(), elr=(101 + number,), leaderless=True)
    quorum = apply(replay, [script.read()])
    assert sorted(one.partitions for one in quorum.offline) == [1, 1, 3]

    for number in range(5):
        script.change("orders", number, isr=(101 + number,), elr=(), leader=101 + number)
        quorum = apply(replay, [script.read()])
        assert sum(one.partitions for one in quorum.offline) == 4 - number
    assert quorum.offline == ()


def test_a_change_that_keeps_the_replicas_changes_nothing() -> None:
    sums = CountedPartitions()
    changed(sums, 0, None, offline(101))
    before = sums.current
    changed(sums, 0, offline(101), offline(101)._replace(partition_epoch=2))
    assert sums.current is before


def test_further_replicas_are_counted_by_broker() -> None:
    sums, nodes = CountedPartitions(), tuple(map(NodeId, (101, 102, 103)))
    first, second = offline(101)._replace(replicas=nodes), offline(101)._replace(replicas=nodes[:2])
    changed(sums, 0, None, first)
    changed(sums, 1, None, second)
    sums = CountedPartitions(sums.current)
    assert dict(sums.current[0].others) == {102: 2, 103: 1}

    since = sums.current[0].since_timestamp_ms
    changed(sums, 0, first, second)
    assert (dict(sums.current[0].others), sums.current[0].since_timestamp_ms) == ({102: 2}, since), "a reassignment"
    changed(sums, 0, second, None)
    assert dict(sums.current[0].others) == {102: 1}


def test_directories_are_numbered_by_broker_and_restored() -> None:
    numbers, nodes = DirectoryNumbers(), (NodeId(1), NodeId(2), NodeId(3))
    a, b = DirectoryId("a"), DirectoryId("b")
    assert numbers.numbers(nodes, (a, b, a)) == (0, 0, 0)
    assert numbers.numbers(nodes, (b, None, UNASSIGNED_ID)) == (1, MIGRATING, UNASSIGNED)
    assert numbers.directory(NodeId(1), 1) == b
    assert numbers.directory(NodeId(1), UNASSIGNED) is None


def test_a_broker_has_only_so_many_directories() -> None:
    numbers, node = DirectoryNumbers(), (NodeId(1),)
    found = [numbers.numbers(node, (DirectoryId(f"d{one}"),)) for one in range(MOST_LOG_DIRECTORIES + 1)]
    assert found[-2:] == [(MOST_LOG_DIRECTORIES - 1,), (MIGRATING,)]


def test_partitions_below_min_insync_replicas_are_counted_by_the_missing_ones_of_their_topic_or_of_the_cluster() -> (
    None
):
    script, replay = begun()
    for topic in ("orders", "payments"):
        script.topic(topic)
        for number in range(3):
            script.partition(topic, number, 101, 102, 103)
    script.change("orders", 0, isr=(101,))
    script.change("orders", 1, isr=(101, 102))
    script.change("payments", 0, isr=(101,))
    assert below(apply(replay, [script.read()])) == {}

    append(script, "config orders min-isr 2")
    assert below(apply(replay, [script.read()])) == {"102 103": 1}
    append(script, "config cluster min-isr 3")
    assert below(apply(replay, [script.read()])) == {"102 103": 2}
    append(script, "config orders min-isr none")
    quorum = apply(replay, [script.read()])
    assert below(quorum) == {"102 103": 2, "103": 1}
    assert below(again(replay.to_bytes()).quorum()) == below(quorum)

    script.change("orders", 0, isr=(101, 102, 103))
    script.change("payments", 0, isr=(101,), leaderless=True)
    script.remove_topic("orders")
    assert below(apply(replay, [script.read()])) == {}
    # More than there are replicas are not needed.
    script.topic("small")
    script.partition("small", 0, 101, 102)
    assert below(apply(replay, [script.read()])) == {}


def below(quorum: Quorum) -> dict[str, int]:
    return {" ".join(str(key.id) for key in one.holders): one.partitions for one in quorum.under_min_isr}
