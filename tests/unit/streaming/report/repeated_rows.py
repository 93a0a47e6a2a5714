"""The rows of an hour: the recorded seconds of a quiet quorum, repeated with later times and offsets."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from connectors.metadata.batches import RecordBatch, scan
from connectors.observations.observation import Observation, ObservationKind, QuorumPolled, from_json, to_json
from rules.model.identifiers import Millis, Offset
from rules.model.quorum import Replica

START_S, PERIOD_S = 40, 80
"""A period holds whole intervals of polls, probes and leader views."""


def repeated(rows: Sequence[Observation], seconds: int) -> Iterator[Observation]:
    """Yields the rows of `seconds` seconds: the first ones as recorded, then the period again and again."""
    start_ms = rows[0].observed_at_ms + START_S * 1000
    period = [row for row in rows if 0 <= row.observed_at_ms - start_ms < PERIOD_S * 1000]
    records = [row for row in period if row.kind is ObservationKind.RECORDS and row.last_offset is not None]
    assert records[0].base_offset is not None
    assert records[-1].last_offset is not None
    length = records[-1].last_offset + 1 - records[0].base_offset
    yield from (row for row in rows if row.observed_at_ms < start_ms)
    for number in range((seconds - START_S) // PERIOD_S):
        for row in period:
            yield _moved(row, number * PERIOD_S * 1000, number * length)


def _moved(row: Observation, by_ms: int, by_offset: int) -> Observation:
    moved = replace(row, observed_at_ms=row.observed_at_ms + by_ms)
    match row.kind:
        case ObservationKind.RECORDS:
            return replace(
                moved,
                base_offset=_sum(row.base_offset, by_offset),
                last_offset=_sum(row.last_offset, by_offset),
                high_watermark=_sum(row.high_watermark, by_offset),
                payload=_moved_batches(row.payload, by_offset),
            )
        case ObservationKind.QUORUM:
            polled = from_json(row.payload)
            assert isinstance(polled, QuorumPolled)
            later = replace(
                polled,
                high_watermark=None if polled.high_watermark is None else Offset(polled.high_watermark + by_offset),
                voters=tuple(_moved_replica(each, by_ms, by_offset) for each in polled.voters),
                observers=tuple(_moved_replica(each, by_ms, by_offset) for each in polled.observers),
            )
            return replace(moved, payload=to_json(later))
        case _:
            return moved


def _moved_batches(payload: bytes, by_offset: int) -> bytes:
    """The base offset is not part of a batch's checksum."""
    content = bytearray(payload)
    for batch in scan(payload):
        assert isinstance(batch, RecordBatch)
        content[batch.position : batch.position + 8] = (batch.base_offset + by_offset).to_bytes(8, "big")
    return bytes(content)


def _moved_replica(replica: Replica, by_ms: int, by_offset: int) -> Replica:
    return replace(
        replica,
        log_end_offset=None if replica.log_end_offset is None else Offset(replica.log_end_offset + by_offset),
        last_fetch_ms=None if replica.last_fetch_ms is None else Millis(replica.last_fetch_ms + by_ms),
        last_caught_up_ms=None if replica.last_caught_up_ms is None else Millis(replica.last_caught_up_ms + by_ms),
    )


def _sum(value: int | None, more: int) -> int | None:
    return None if value is None else value + more
