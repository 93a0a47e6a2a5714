"""Stored topics: a change encodes its page, large parts are pages outside, and what is restored is what was stored."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rules.model.identifiers import NodeId, TopicId
from streaming.replay import stored_topics
from streaming.replay.stored_topics import (
    PAGE_PARTITIONS,
    Assignment,
    MissingPageError,
    StoredTopics,
    table_references,
)
from tests.unit.streaming.replay.memory_pages import MemoryPages

PER_TOPIC = 10
TOPICS = 2_000


def topic_id(number: int) -> TopicId:
    return TopicId(f"topic-{number}")


def assignment(number: int, epoch: int = 0) -> Assignment:
    replicas = tuple(NodeId(node) for node in dict.fromkeys((number % 31, number * 7 % 31, 99)))
    isr = replicas[: 1 + number % 3]
    return Assignment(
        replicas, isr, (), replicas[:1] if epoch == 3 else (), replicas[0], epoch, None if epoch == 5 else epoch
    )


def put(topics: StoredTopics, number: int, partition: int, held: Assignment) -> None:
    topic = topics.to_change(topic_id(number))
    topics.sizes[topic.page] += partition not in topic.partitions
    topic.partitions[partition] = held


def filled() -> StoredTopics:
    topics = StoredTopics()
    for number in range(TOPICS):
        topics.set_name(topic_id(number), f"name-{number}")
        for partition in range(PER_TOPIC):
            put(topics, number, partition, assignment(number * PER_TOPIC + partition))
    return topics


def test_large_parts_are_outside_the_blob_and_needed_to_read_it() -> None:
    topics, pages = filled(), MemoryPages()
    blob = topics.to_bytes(pages)

    assert len(pages.contents) == -(-TOPICS * (PER_TOPIC + 1) // PAGE_PARTITIONS)
    assert len(blob) < 30 * len(pages.contents)
    assert {*table_references(blob)} == pages.contents.keys(), "no page is written twice"
    assert StoredTopics.restored(blob, pages).by_id == topics.by_id
    with pytest.raises(MissingPageError):
        StoredTopics.restored(blob, MemoryPages())


def test_a_change_writes_one_page_and_none_writes_nothing() -> None:
    topics, pages = filled(), MemoryPages()
    topics.to_bytes(pages)
    for restored in (False, True):
        before, count = pages.written, len(pages.contents)
        put(topics, 7, 3, assignment(1, epoch=8 + restored))
        blob = topics.to_bytes(pages)
        assert len(pages.contents) == count + 1
        assert pages.written - before < 30 * PAGE_PARTITIONS
        assert topics.to_bytes(pages) == blob
        assert len(pages.contents) == count + 1
        topics = StoredTopics.restored(blob, pages)


def test_a_part_that_is_cut_off_is_refused() -> None:
    with pytest.raises(ValueError, match="a part ends after 2 bytes"):
        StoredTopics.restored(filled().to_bytes(None) + bytes(2), None)


def test_a_small_table_needs_no_pages_outside() -> None:
    topics, pages = StoredTopics(), MemoryPages()
    put(topics, 0, 0, assignment(0))
    assert StoredTopics.restored(topics.to_bytes(pages), None).by_id == topics.by_id
    assert not pages.contents


def test_the_pages_of_removed_topics_are_filled_again() -> None:
    topics = filled()
    pages = len(topics.sizes)
    for _ in range(20):
        for number in range(TOPICS // 2):
            topics.remove(topic_id(number))
        for number in range(TOPICS // 2):
            for partition in range(PER_TOPIC):
                put(topics, number, partition, assignment(number))

    assert len(topics.sizes) <= pages + 1
    assert max(topics.sizes) < PAGE_PARTITIONS + 2 * PER_TOPIC
    assert sum(topics.sizes) == TOPICS * (PER_TOPIC + 1)


STEP = st.tuples(st.sampled_from(["set", "set", "set", "name", "remove"]), st.integers(0, 8), st.integers(0, 9))


@given(st.lists(st.lists(STEP, max_size=6), max_size=14), st.booleans(), st.booleans())
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_is_restored_is_what_was_stored(
    batches: list[list[tuple[str, int, int]]], outside: bool, restored: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_topics, "PAGE_PARTITIONS", 4)
        patch.setattr(stored_topics, "SMALL_PAGE", 60)
        pages, topics = MemoryPages() if outside else None, StoredTopics()
        for batch in batches:
            for kind, number, value in batch:
                if kind == "remove":
                    topics.remove(topic_id(number))
                elif kind == "name":
                    topics.set_name(topic_id(number), f"name-{value}")
                else:
                    put(topics, number, value % 3, assignment(number, value))
            blob = topics.to_bytes(pages)
            back = StoredTopics.restored(blob, pages)
            assert (back.by_id, back.sizes) == (topics.by_id, topics.sizes)
            assert back.to_bytes(pages) == blob
            for name in (f"name-{value}" for value in range(10)):
                named = {topic for topic, one in topics.by_id.items() if one.name == name}
                assert {*topics.named(name)} == {*back.named(name)} == named
            topics = back if restored else topics
