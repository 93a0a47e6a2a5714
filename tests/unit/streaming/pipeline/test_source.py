"""What one micro-batch may carry: rows bounded in number and in bytes, the same when they are asked for again."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.observations.observation import Observation, ObservationKind, unpacked
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from streaming.pipeline import source
from streaming.pipeline.schema import PACKED
from streaming.pipeline.source import JournalSource, JournalStreamReader


def piece(number: int, size: int) -> Observation:
    return Observation(
        cluster="a",
        kind=ObservationKind.SNAPSHOT,
        observed_at_ms=number,
        base_offset=9,
        last_offset=number,
        payload=bytes(size),
    )


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal with three rows."""
    with JournalWriter(tmp_path) as recorder:
        recorder.append([piece(number, 1) for number in range(3)])
    return tmp_path


def sizes(reader: JournalStreamReader, start: dict[str, str | int], end: dict[str, str | int]) -> list[int]:
    (partition,) = reader.partitions(start, end)
    (batch,) = reader.read(partition)
    assert isinstance(batch, pa.RecordBatch)
    return [len(value) for value in batch.column("payload").to_pylist()]


def test_a_batch_of_a_snapshot_is_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "BYTES_PER_BATCH", 1_000)
    with JournalWriter(tmp_path) as recorder:
        recorder.append([piece(0, 400), piece(1, 500), piece(2, 300), piece(3, 5_000), piece(4, 1)])
    reader = JournalStreamReader(tmp_path)

    at, batches = reader.initialOffset(), []
    while (end := reader.latestOffset(at, reader.getDefaultReadLimit()))["sequence"] != 5:
        batches.append(sizes(reader, at, end))
        assert sizes(JournalStreamReader(tmp_path), at, end) == batches[-1]
        at = end
    batches.append(sizes(reader, at, end))

    # One row that is larger alone still goes: nothing may stop the stream.
    assert batches == [[400, 500], [300], [5_000], [1]]


def test_a_batch_is_bounded_in_rows(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "ROWS_PER_BATCH", 2)
    reader = JournalStreamReader(journal)

    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    second = reader.latestOffset(first, reader.getDefaultReadLimit())

    assert (first["sequence"], second["sequence"]) == (2, 3)


def test_a_new_state_begins_where_the_logs_were_read_again(journal: Path) -> None:
    with JournalWriter(journal) as recorder:
        recorder.read_logs_again()
        recorder.append([piece(3, 1)])

    assert JournalStreamReader(journal).initialOffset()["sequence"] == 3


@pytest.mark.parametrize(("commits", "committed"), [(True, 2), (False, 0)])
def test_only_the_job_lets_the_gatherer_delete_rows(journal: Path, commits: bool, committed: int) -> None:
    reader = JournalStreamReader(journal, commits=commits)

    reader.commit({**reader.initialOffset(), "sequence": 2})

    assert JournalReader(journal).committed_end() == committed


def test_packed_rows_are_the_rows_of_the_journal(journal: Path) -> None:
    reader = JournalSource({"path": str(journal)}).streamReader(PACKED)
    start = reader.initialOffset()

    (partition,) = reader.partitions(start, {**start, "sequence": 3})

    (batch,) = reader.read(partition)
    rows = [unpacked(value) for value in batch.column("observation").to_pylist()]
    assert rows == [replace(piece(number, 1), sequence=number) for number in range(3)]
