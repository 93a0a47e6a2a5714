"""The stored table: a change writes the change, and a page with many changes is encoded again by itself."""

import pytest

from rules.model.identifiers import NodeId, TopicId
from streaming.replay.assignment import Assignment
from streaming.replay.partition_table import PartitionTable
from streaming.replay.table_codec import MOST_CHANGES, PAGE_ROWS, StoredTable

COUNT = 5 * PAGE_ROWS
PER_TOPIC = 10


def topic(number: int) -> TopicId:
    return TopicId(f"topic-{number // PER_TOPIC}")


def assignment(number: int, epoch: int = 0) -> Assignment:
    first, *others = (NodeId((number * step) % 31) for step in (1, 7))
    replicas = (first, *(node for node in others if node != first), NodeId(99))
    return Assignment(replicas, replicas, (), (), first, epoch, epoch)


@pytest.fixture
def stored() -> StoredTable:
    table = PartitionTable()
    for number in range(COUNT):
        table.add(topic(number), number % PER_TOPIC, assignment(number))
    return StoredTable(table)


def change(stored: StoredTable, number: int) -> None:
    slot = stored.table.find(topic(number), number % PER_TOPIC)
    stored.table.put(slot, assignment(number, epoch=7))


def contents(table: PartitionTable) -> dict[tuple[TopicId | None, int], Assignment]:
    return {(table.topics.ids[of], number): held for of, number, held in table.partitions()}


def rewritten(before: bytes, after: bytes) -> int:
    """Returns how many bytes of the second blob are not a copy of the same place of the first one."""
    same = next(at for at in range(len(before)) if before[at] != after[at])
    end = next(at for at in range(1, len(before)) if before[-at] != after[-at])
    return len(after) - same - end + 1


def test_a_change_is_stored_as_the_change(stored: StoredTable) -> None:
    before = stored.to_bytes()
    assert stored.to_bytes() == before
    change(stored, 3)
    after = stored.to_bytes()

    assert rewritten(before, after) < 100
    assert contents(StoredTable.restored(after).table) == contents(stored.table)


def test_changes_of_all_pages_grow_the_blob_by_their_own_size(stored: StoredTable) -> None:
    before = stored.to_bytes()
    numbers = range(0, COUNT, 100)
    for number in numbers:
        change(stored, number)

    assert len(stored.to_bytes()) - len(before) < 50 * len(numbers)


def test_a_page_with_many_changes_is_encoded_again_by_itself(stored: StoredTable) -> None:
    before = stored.to_bytes()
    for number in range(MOST_CHANGES):
        change(stored, PAGE_ROWS + number)
    with_changes = stored.to_bytes()
    change(stored, PAGE_ROWS + MOST_CHANGES)
    after = stored.to_bytes()

    assert len(with_changes) - len(before) > 1_000
    assert abs(len(after) - len(before)) < 1_000
    assert rewritten(before, after) < len(before) // 2
    assert contents(StoredTable.restored(after).table) == contents(stored.table)


def test_a_restored_table_goes_on_where_it_was_stored(stored: StoredTable) -> None:
    change(stored, 3)
    stored.table.remove_topic(topic(200))
    back = StoredTable.restored(stored.to_bytes())
    for one in (stored, back):
        change(one, 4)
        one.table.remove_topic(topic(50))
        for number in range(2 * PER_TOPIC):
            one.table.add(TopicId("new"), number, assignment(1))

    assert back.table.end == COUNT, "the rows of the removed topics are used again"
    assert back.to_bytes() == stored.to_bytes()
    assert contents(back.table) == contents(stored.table)
