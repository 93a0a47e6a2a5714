"""A table as state blobs of version 4 hold it becomes the present one with the first change."""

from pathlib import Path

from rules.model.identifiers import NodeId, TopicId
from streaming.replay.assignment import Assignment
from streaming.replay.page_store import TABLE_MAGIC
from streaming.replay.partition_row import RECOVERING
from streaming.replay.partitions import Partitions
from tests.unit.streaming.replay.memory_pages import MemoryPages

STORED = Path(__file__).parents[3] / "data" / "checkpoint" / "partition-table-version-4.bin"
PER_TOPIC, COUNT = 50, 5_000
REMOVED = 3
MANY = tuple(map(NodeId, range(1, 7)))
CHANGED = {
    10: Assignment(tuple(map(NodeId, (1, 2))), (NodeId(1),), (NodeId(2),), (), None, 8, 8),
    20: Assignment(MANY, MANY[:2], (), (), NodeId(2), 2, 3),
    4_500: Assignment(MANY, MANY, (), (NodeId(3),), None, 2, 5),
}


def written(number: int) -> Assignment:
    replicas = tuple(map(NodeId, (number % 3, 3 + number % 5, 9)))
    return CHANGED.get(number, Assignment(replicas, replicas, (), (), replicas[0], 7, 9))


def check(partitions: Partitions) -> None:
    topics = partitions.topics
    assert {topic_id: topic.name for topic_id, topic in topics.items()} == {
        f"topic-{number}": f"orders-{number}" for number in range(COUNT // PER_TOPIC) if number != REMOVED
    }
    for number in range(COUNT):
        topic = topics.get(TopicId(f"topic-{number // PER_TOPIC}"))
        assert topic is None or topic.partitions[number % PER_TOPIC] == written(number)
    assert partitions.table.rows["flags"][4_501] & RECOVERING


def test_a_table_of_version_4_is_read_and_stored_again_with_its_topics() -> None:
    packed, pages = STORED.read_bytes(), MemoryPages()
    former = Partitions(packed=packed, pages=pages)
    assert former.pack(pages) == packed, "as it is until a partition changes"
    check(former)

    former.create(TopicId("topic-99"), "orders-99")
    present = former.pack(pages)
    assert present.startswith(TABLE_MAGIC)
    assert pages.contents
    check(Partitions(packed=present, pages=pages))
