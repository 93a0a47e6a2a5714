"""A stored table whose large parts are pages outside: small blobs, bounded runs, and always the table as it is."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rules.model.identifiers import NodeId, TopicId
from streaming.replay import table_codec
from streaming.replay.assignment import Assignment
from streaming.replay.page_store import MissingPageError, split_parts, stored_part, table_references
from streaming.replay.partition_table import PartitionTable
from streaming.replay.table_codec import MOST_RUNS, PAGE_ROWS, StoredTable
from tests.unit.streaming.replay.memory_pages import MemoryPages
from tests.unit.streaming.replay.test_table_codec import PER_TOPIC, assignment, contents, topic

PAGES = 10
COUNT = PAGES * PAGE_ROWS
BYTES_PER_CHANGE = 50
LARGEST_BLOB = 64 * 1024
MANY_REPLICAS = tuple(NodeId(node) for node in range(6))
"""More than fit into a row."""


@pytest.fixture(scope="module")
def large() -> tuple[bytes, MemoryPages]:
    """Returns a stored table of many pages."""
    table, pages = PartitionTable(), MemoryPages()
    for number in range(COUNT):
        table.add(topic(number), number % PER_TOPIC, assignment(number))
    return StoredTable(table).to_bytes(pages), pages


def change(stored: StoredTable, number: int, epoch: int) -> None:
    slot = stored.table.find(topic(number), number % PER_TOPIC)
    stored.table.put(slot, assignment(number, epoch=epoch))


def test_large_parts_are_outside_the_blob_and_needed_to_read_it(large: tuple[bytes, MemoryPages]) -> None:
    blob, pages = large

    assert len(blob) < 16 * 1024
    assert {*table_references(blob)} == pages.contents.keys(), "no page is written twice"
    assert len(contents(StoredTable.restored(blob, pages).table)) == COUNT
    with pytest.raises(MissingPageError):
        StoredTable.restored(blob, MemoryPages())


def test_a_part_that_is_cut_off_is_refused() -> None:
    with pytest.raises(ValueError, match="a part ends after 2 bytes"):
        split_parts(stored_part(b"content", None) + bytes(2), 0)


def test_a_small_table_needs_no_pages_outside() -> None:
    table, pages = PartitionTable(), MemoryPages()
    table.add(topic(0), 0, assignment(0))
    StoredTable(table).to_bytes(pages)
    assert not pages.contents


def test_blobs_stay_small_however_many_changes_there_were(large: tuple[bytes, MemoryPages]) -> None:
    blob, pages = large
    stored, chosen = StoredTable.restored(blob, pages), random.Random(3)
    batches, changes, before = 300, 200, pages.written
    for batch in range(batches):
        for _ in range(changes):
            change(stored, chosen.randrange(COUNT), batch)
        blob = stored.to_bytes(pages)
        assert len(blob) < LARGEST_BLOB

    assert len([*table_references(blob)]) < 2 * PAGES + COUNT // PER_TOPIC // 512 + 2 * MOST_RUNS
    # Sealed runs, and pages that were encoded again.
    assert (pages.written - before) / (batches * changes) < 4 * BYTES_PER_CHANGE
    assert contents(StoredTable.restored(blob, pages).table) == contents(stored.table)


def test_many_changes_at_once_are_a_run_of_their_size(large: tuple[bytes, MemoryPages]) -> None:
    blob, pages = large
    stored, before = StoredTable.restored(blob, pages), pages.written + len(blob)
    changed = range(0, COUNT, 10)
    for number in changed:
        change(stored, number, 9)
    blob = stored.to_bytes(pages)

    assert pages.written + len(blob) - before < BYTES_PER_CHANGE * len(changed)
    assert contents(StoredTable.restored(blob, pages).table) == contents(stored.table)


@st.composite
def steps(draw: st.DrawFn) -> list[list[tuple[str, int, int]]]:
    kinds = st.sampled_from(["set", "set", "set", "odd", "recovering", "remove"])
    step = st.tuples(kinds, st.integers(0, 29), st.integers(0, 99))
    return draw(st.lists(st.lists(step, max_size=6), max_size=14))


@given(steps(), st.booleans(), st.booleans())
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_is_restored_is_what_was_stored(
    batches: list[list[tuple[str, int, int]]], outside: bool, restored: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("PAGE_ROWS", 4),
            ("PAGE_TOPICS", 2),
            ("SMALL_PAGE", 60),
            ("MOST_CHANGES", 2),
            ("RUN_BYTES", 90),
            ("MOST_RUNS", 2),
        ):
            patch.setattr(table_codec, name, value)
        pages = MemoryPages() if outside else None
        stored = StoredTable(PartitionTable())
        for batch in batches:
            for kind, number, epoch in batch:
                apply(stored.table, kind, number, epoch)
            blob = stored.to_bytes(pages)
            back = StoredTable.restored(blob, pages)
            assert contents(back.table) == contents(stored.table)
            assert back.table.rows[: back.table.end].tolist() == stored.table.rows[: stored.table.end].tolist()
            assert back.to_bytes(pages) == blob
            if restored:
                stored = back


def apply(table: PartitionTable, kind: str, number: int, epoch: int) -> None:
    topic_id, partition = TopicId(f"topic-{number % 5}"), number // 5
    if kind == "remove":
        table.remove_topic(topic_id)
        return
    held = assignment(number, epoch)
    if kind == "odd":
        held = Assignment(MANY_REPLICAS, MANY_REPLICAS, (), (), MANY_REPLICAS[0], epoch, epoch)
    slot = table.find(topic_id, partition)
    if slot < 0:
        slot = table.add(topic_id, partition, held)
    else:
        table.put(slot, held)
    table.set_recovering(slot, recovering=kind == "recovering")
