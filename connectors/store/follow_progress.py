"""FollowProgress: how far one cluster's log is recorded, so that a restarted follower continues there; and its size.

The position is folded row by row, and stored in the same transaction as the rows.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from pydantic import TypeAdapter

from connectors.errors import UndecodableError
from connectors.metadata.batches import FRAME, HEADER, RecordBatch
from connectors.metadata.record_framing import control_type, framed_record
from connectors.metadata.record_schemas import known_records
from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_file import ROW_BYTES

_SNAPSHOT_FOOTER = 4
"""org.apache.kafka.common.record.ControlRecordType.SNAPSHOT_FOOTER."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowProgress:
    """Where to continue with one cluster, and the lower bound of its clock. Stored as JSON."""

    observed_at_ms: int
    """Of the newest row of any kind: later rows must not be earlier."""
    next_offset: int | None = None
    """Fetch from here: after the last recorded batch, or the end of a complete snapshot; None = from the start."""
    last_epoch: int | None = None
    """Leader epoch of the batch (or snapshot) before `next_offset`: Fetch's LastFetchedEpoch."""
    high_watermark: int | None = None
    """The newest one recorded."""
    records: str = ""
    """Which records were known to who recorded the log (`known_records`): the bodies of others were not recorded."""
    kept_bytes: int = 0
    """What the rows of the cluster take in the journal, about."""
    emptied_end: int = 0
    """The sequence after the newest row that was emptied, because the cluster took more than its share; 0: none was."""

    @property
    def lacks_known_records(self) -> bool:
        """Whether the log must be read again, because this build knows other records."""
        return self.next_offset is not None and self.records != known_records()


FOLLOW_PROGRESS: Final = TypeAdapter(FollowProgress)
"""Its stored form: JSON."""


def advance(position: FollowProgress | None, row: Observation) -> FollowProgress:
    """Returns the position after one more row of the same cluster."""
    before = position if position is not None else new_progress(row.observed_at_ms)
    after = replace(
        before,
        observed_at_ms=max(before.observed_at_ms, row.observed_at_ms),
        kept_bytes=before.kept_bytes + len(row.payload) + ROW_BYTES,
    )
    if row.high_watermark is not None:
        after = replace(after, high_watermark=row.high_watermark)
    match row.kind:
        case ObservationKind.RECORDS:
            return _after_records(after, row)
        case ObservationKind.SNAPSHOT:
            return _after_piece(after, row)
        case _:
            return after


def new_progress(observed_at_ms: int) -> FollowProgress:
    """Returns the position of a follower that has recorded nothing of the log."""
    return FollowProgress(observed_at_ms=observed_at_ms, records=known_records())


def _after_records(position: FollowProgress, row: Observation) -> FollowProgress:
    if row.last_offset is None:
        return position
    next_offset = row.last_offset + 1
    if not row.payload:
        # An empty fetch response moves nothing; it sets the position of a follower that has read nothing yet.
        moved = position.next_offset != next_offset
        return replace(position, next_offset=next_offset, last_epoch=None if moved else position.last_epoch)
    batch = _last_batch(row.payload)
    epoch = row.leader_epoch if batch is None else batch.leader_epoch
    return replace(position, next_offset=next_offset, last_epoch=epoch)


def _after_piece(position: FollowProgress, row: Observation) -> FollowProgress:
    """The pieces of a snapshot follow each other: a follower that is restarted begins with the first one again."""
    if row.base_offset is None or not _ends_with_footer(row.payload):
        return position
    return replace(position, next_offset=row.base_offset, last_epoch=row.leader_epoch)


def _last_batch(payload: bytes) -> RecordBatch | None:
    """Returns the last of the whole batches in `payload`; None if `payload` is not a sequence of whole batches."""
    at, header = 0, None
    while at + HEADER.size <= len(payload):
        header = RecordBatch(at, *HEADER.unpack_from(payload, at))
        if header.length < HEADER.size - FRAME:
            return None
        at = header.end
    return header if at == len(payload) else None


def _ends_with_footer(payload: bytes) -> bool:
    batch = _last_batch(payload)
    if batch is None or not batch.is_control:
        return False
    with suppress(UndecodableError, IndexError):
        return control_type(payload, framed_record(payload, batch.body, batch, 0).key) == _SNAPSHOT_FOOTER
    return False
