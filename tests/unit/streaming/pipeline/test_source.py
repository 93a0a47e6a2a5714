"""What one micro-batch may carry: rows bounded in number and in bytes, the same when they are asked for again."""

from pathlib import Path

import pyarrow as pa
import pytest

from connectors.journal.writer import JournalWriter
from connectors.observation import Observation, ObservationKind
from streaming.pipeline import source
from streaming.pipeline.source import JournalStreamReader


def piece(number: int, size: int) -> Observation:
    return Observation(
        cluster="a",
        kind=ObservationKind.SNAPSHOT,
        observed_at_ms=number,
        base_offset=9,
        last_offset=number,
        payload=bytes(size),
    )


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


def test_a_batch_is_bounded_in_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "ROWS_PER_BATCH", 2)
    with JournalWriter(tmp_path) as recorder:
        recorder.append([piece(number, 1) for number in range(3)])
    reader = JournalStreamReader(tmp_path)

    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    second = reader.latestOffset(first, reader.getDefaultReadLimit())

    assert (first["sequence"], second["sequence"]) == (2, 3)
