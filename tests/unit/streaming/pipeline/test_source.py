"""What one micro-batch may carry: rows bounded in number and in bytes, the same when they are asked for again."""

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


def test_a_new_state_begins_where_the_logs_were_read_again(tmp_path: Path) -> None:
    with JournalWriter(tmp_path) as recorder:
        recorder.append([piece(number, 1) for number in range(3)])
        recorder.read_logs_again()
        recorder.append([piece(3, 1)])

    assert JournalStreamReader(tmp_path).initialOffset()["sequence"] == 3


@pytest.mark.parametrize(("commits", "committed"), [(True, 2), (False, 0)])
def test_only_the_job_lets_the_gatherer_delete_rows(tmp_path: Path, commits: bool, committed: int) -> None:
    with JournalWriter(tmp_path) as recorder:
        recorder.append([piece(number, 1) for number in range(3)])
    reader = JournalStreamReader(tmp_path, commits=commits)

    reader.commit({**reader.initialOffset(), "sequence": 2})

    assert JournalReader(tmp_path).committed_end() == committed


def test_packed_rows_are_the_rows_of_the_journal(tmp_path: Path) -> None:
    with JournalWriter(tmp_path) as recorder:
        recorder.append([piece(second, 1) for second in range(4)])
    reader = JournalSource({"path": str(tmp_path)}).streamReader(PACKED)
    start = reader.initialOffset()

    (partition,) = reader.partitions(start, {**start, "sequence": 4})

    (batch,) = reader.read(partition)
    rows = [unpacked(value) for value in batch.column("observation").to_pylist()]
    assert [row.sequence for row in rows] == [0, 1, 2, 3]
    assert [row.payload for row in rows] == [piece(second, 1).payload for second in range(4)]
