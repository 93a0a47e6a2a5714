"""Sums of partitions without a leader, and numbers of log directories: limits, and what is stored."""

import pytest

from connectors.metadata.value_limits import MOST_LOG_DIRECTORIES
from rules.model.identifiers import DirectoryId, Epoch, Millis, NodeId, Offset, TopicId
from rules.model.membership import RecordPosition
from streaming.replay import offline_sums
from streaming.replay.directory_numbers import MIGRATING, UNASSIGNED, UNASSIGNED_ID, DirectoryNumbers
from streaming.replay.offline_sums import OfflineSums
from streaming.replay.stored_topics import Assignment
from tests.scripts.log_script import apply, begun

AT = RecordPosition(offset=Offset(7), leader_epoch=Epoch(1), timestamp_ms=Millis(5_000))
TOPIC = TopicId("orders")
MOST_EXAMPLES = 20


def offline(*holders: int) -> Assignment:
    nodes = tuple(map(NodeId, holders))
    return Assignment(nodes, (), nodes, (), None, 1, 1)


def changed(sums: OfflineSums, number: int, before: Assignment | None, now: Assignment | None) -> None:
    sums.changed((TOPIC, number), "orders", before, now, AT, DirectoryNumbers())


def test_more_partitions_than_examples_are_counted() -> None:
    sums = OfflineSums()
    for number in range(MOST_EXAMPLES + 5):
        changed(sums, number, None, offline(101))
    (one,) = sums.current
    assert (one.partitions, len(one.examples)) == (MOST_EXAMPLES + 5, MOST_EXAMPLES)

    restored = OfflineSums(sums.current)
    for number in range(MOST_EXAMPLES + 4):
        changed(restored, number, offline(101), None)
    (one,) = restored.current
    assert (one.partitions, one.examples) == (1, ())
    changed(restored, MOST_EXAMPLES + 4, offline(101), None)
    assert restored.current == ()


def test_beyond_the_most_sums_all_partitions_are_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline_sums, "MOST_SUMS", 2)
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
    sums = OfflineSums()
    changed(sums, 0, None, offline(101))
    before = sums.current
    changed(sums, 0, offline(101), offline(101)._replace(partition_epoch=2))
    assert sums.current is before


def test_further_replicas_are_counted_by_broker() -> None:
    sums, nodes = OfflineSums(), tuple(map(NodeId, (101, 102, 103)))
    first, second = offline(101)._replace(replicas=nodes), offline(101)._replace(replicas=nodes[:2])
    changed(sums, 0, None, first)
    changed(sums, 1, None, second)
    sums = OfflineSums(sums.current)
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
