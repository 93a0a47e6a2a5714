"""Progress: how far one cluster was followed, so that a restarted follower goes on where the journal ends.

It is folded row by row. Every segment is headed by the progress of all clusters before its first row, so the
last segment alone is enough to know it again after a crash, whatever was deleted before.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from connectors.metadata.batches import FRAME, HEADER, Batch
from connectors.observation import Kind, Observation

_SNAPSHOT_FOOTER = 4
"""org.apache.kafka.common.record.ControlRecordType.SNAPSHOT_FOOTER."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotProgress:
    """The newest snapshot that was begun."""

    end_offset: int
    epoch: int | None
    pieces: int
    """Pieces recorded, from 0 without a gap: the next piece has this number."""
    payload_bytes: int
    """Sum of the recorded pieces' payloads."""
    complete: bool
    """The last piece ends with the SnapshotFooterRecord."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where to go on with one cluster, and the floor under its clock."""

    observed_at_ms: int
    """Of the newest row of any kind: later rows must not be earlier."""
    next_offset: int | None = None
    """Fetch from here: after the last recorded batch, or the end of a complete snapshot; None = from the start."""
    last_epoch: int | None = None
    """Leader epoch of the batch (or snapshot) before `next_offset`: Fetch's LastFetchedEpoch."""
    high_watermark: int | None = None
    """The newest one recorded."""
    snapshot: SnapshotProgress | None = None


def advance(progress: Progress | None, row: Observation) -> Progress:
    """The progress after one more row of the same cluster."""
    before = progress if progress is not None else Progress(observed_at_ms=row.observed_at_ms)
    after = replace(before, observed_at_ms=max(before.observed_at_ms, row.observed_at_ms))
    if row.high_watermark is not None:
        after = replace(after, high_watermark=row.high_watermark)
    match row.kind:
        case Kind.RECORDS:
            return _after_records(after, row)
        case Kind.SNAPSHOT:
            return _after_piece(after, row)
        case Kind.QUORUM | Kind.PROBE | Kind.VIEW | Kind.UNSEEN | Kind.AUDIT:
            return after


def to_json(progress: Progress) -> dict[str, Any]:
    """As plain JSON values."""
    return asdict(progress)


def from_json(value: dict[str, Any]) -> Progress:
    """What `to_json` made.

    Raises:
        TypeError: the fields are not those of a Progress.
    """
    snapshot = value.get("snapshot")
    return Progress(**{**value, "snapshot": None if snapshot is None else SnapshotProgress(**snapshot)})


def _after_records(progress: Progress, row: Observation) -> Progress:
    if row.last_offset is None:
        return progress
    next_offset = row.last_offset + 1
    if not row.payload:
        # An empty answer moves nothing; it only tells the position of a follower that has read nothing yet.
        moved = progress.next_offset != next_offset
        return replace(progress, next_offset=next_offset, last_epoch=None if moved else progress.last_epoch)
    batch = _last_batch(row.payload)
    epoch = row.leader_epoch if batch is None else batch.leader_epoch
    return replace(progress, next_offset=next_offset, last_epoch=epoch)


def _after_piece(progress: Progress, row: Observation) -> Progress:
    if row.base_offset is None or row.last_offset is None:
        return progress
    before = progress.snapshot
    goes_on = (
        before is not None
        and (before.end_offset, before.epoch, before.pieces) == (row.base_offset, row.leader_epoch, row.last_offset)
        and not before.complete
    )
    if row.last_offset != 0 and not goes_on:
        # A piece without those before it: nothing that could be continued.
        return replace(progress, snapshot=None)
    snapshot = SnapshotProgress(
        end_offset=row.base_offset,
        epoch=row.leader_epoch,
        pieces=row.last_offset + 1,
        payload_bytes=len(row.payload) + (before.payload_bytes if before is not None and goes_on else 0),
        complete=_ends_with_footer(row.payload),
    )
    if snapshot.complete:
        progress = replace(progress, next_offset=snapshot.end_offset, last_epoch=snapshot.epoch)
    return replace(progress, snapshot=snapshot)


def _last_batch(payload: bytes) -> Batch | None:
    """The last of the whole batches that `payload` consists of; None if it is no such thing."""
    at, header = 0, None
    while at + HEADER.size <= len(payload):
        header = Batch(at, *HEADER.unpack_from(payload, at))
        if header.length < HEADER.size - FRAME:
            return None
        at = header.end
    return header if at == len(payload) else None


def _ends_with_footer(payload: bytes) -> bool:
    batch = _last_batch(payload)
    if batch is None or not batch.is_control:
        return False
    # The record before its key: length, attributes (one byte), timestamp delta, offset delta, key length.
    at = _after_varint(payload, batch.body) + 1
    for _ in range(3):
        at = _after_varint(payload, at)
    # A control record's key: version, type, two bytes each.
    return int.from_bytes(payload[at + 2 : at + 4], "big") == _SNAPSHOT_FOOTER


def _after_varint(content: bytes, at: int) -> int:
    while at < len(content) and content[at] & 0x80:
        at += 1
    return at + 1
