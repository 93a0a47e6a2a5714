"""Byte ranges of a file: decoded one by one they give what the whole file gives, whatever the bytes are."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.errors import UsageError
from connectors.logdir.log_byte_ranges import LogByteRange, byte_ranges, find_log_files, read_range
from connectors.metadata.dump_log import DumpedRecord, DumpEntry, DumpGap, dump_records
from streaming.dataframes.metadata_log_source import topic_names
from tests.unit.connectors.logdir.log_dirs import noops, stopped_quorum
from tests.unit.connectors.metadata.metadata_bytes import tinylog


def shifted(entry: DumpEntry, by: int) -> DumpEntry:
    return entry if isinstance(entry, DumpedRecord) else replace(entry, position=entry.position + by)


def decoded(parts: list[LogByteRange]) -> list[DumpEntry]:
    return [shifted(entry, part.start) for part in parts for entry in dump_records(read_range(part))]


def within(numbers: list[int], ends: tuple[int, int | None]) -> bool:
    low, high = ends
    return all(number < 0 or (low <= number and (high is None or number <= high)) for number in numbers)


def changed(log: bytes, edits: list[tuple[int, int]], *, cut: int) -> bytes:
    content = bytearray(log)
    for position, value in edits:
        content[position % len(content)] = value
    return bytes(content[: len(content) - cut])


# Many batches, snapshots of a topic, and control records, in a size that is decoded in milliseconds.
LOG = tinylog()[0][:30_000]


@settings(deadline=None, max_examples=150)
@given(
    edits=st.lists(st.tuples(st.integers(0, 29_999), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 200),
    max_bytes=st.integers(1, 20_000),
)
def test_ranges_of_any_file_give_what_the_whole_file_gives(
    edits: list[tuple[int, int]], cut: int, max_bytes: int
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "00000000000000000000.log"
        path.write_bytes(changed(LOG, edits, cut=cut))
        parts = byte_ranges(path, max_bytes=max_bytes)

        assert decoded(parts) == list(dump_records(path.read_bytes()))
        assert [part.start for part in parts] == [0, *(part.end for part in parts[:-1])]
        for part in parts:
            records = [one for one in dump_records(read_range(part)) if isinstance(one, DumpedRecord)]
            assert within([one.offset for one in records], part.offsets)
            assert within([one.timestamp for one in records], part.times_ms)


def test_a_gap_in_the_offsets_stays_within_a_range(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(noops(0, 2) + noops(7, 2))

    parts = byte_ranges(path, max_bytes=1)

    offsets = [[one.offset for one in decoded([part]) if isinstance(one, DumpedRecord)] for part in parts]
    assert offsets == [[0], [1, 7], [8]]
    assert [entry.reason for entry in decoded(parts) if isinstance(entry, DumpGap)] == ["base offset 7, expected 2"]


def test_topic_names_are_found_in_segments_and_snapshots(tmp_path: Path) -> None:
    log, sidecar = tinylog()
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(log)
    records = [entry for entry in dump_records(log) if isinstance(entry, DumpedRecord) and entry.data]
    created = {one.data["topicId"]: one.data["name"] for one in records if one.type == "TOPIC_RECORD" and one.data}
    node = stopped_quorum(tmp_path / "quorum") / "node-2"
    (snapshot,) = [file for file in find_log_files(node) if file.name.startswith("00000000000000000037")]

    assert topic_names(byte_ranges(path, max_bytes=100_000)) == created
    assert len(created) == sidecar["by_type"]["TOPIC_RECORD"]
    assert list(topic_names(byte_ranges(snapshot, max_bytes=1)).values()) == ["orders"]


def test_a_directory_has_its_segments_and_snapshots(tmp_path: Path) -> None:
    node = stopped_quorum(tmp_path) / "node-2"

    assert [file.name for file in find_log_files(node)] == [
        "00000000000000000000-0000000000.checkpoint",
        "00000000000000000000.log",
        "00000000000000000037-0000000001.checkpoint",
    ]


def test_a_wrong_path_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("no log")
    missing = tmp_path / "missing"

    with pytest.raises(UsageError, match=r"text\.txt is not a Kafka log: name a \.log"):
        find_log_files(tmp_path / "text.txt")
    with pytest.raises(UsageError, match="missing does not exist: name a metadata log directory"):
        find_log_files(missing)
    with pytest.raises(UsageError, match="no metadata log is in"):
        find_log_files(tmp_path)


def test_a_file_that_kafka_deleted_after_planning_is_named(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(noops(0, 2))
    (part,) = byte_ranges(path, max_bytes=1_000)
    path.unlink()

    with pytest.raises(UsageError, match="was deleted after the query was planned: run the query again"):
        read_range(part)
