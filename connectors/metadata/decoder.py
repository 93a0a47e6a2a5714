"""Decodes the payload of one `records` or `snapshot` observation to events.

Invalid bytes never raise. A batch or record that cannot be decoded becomes an Undecodable with offset and reason, and
decoding continues after it. Records that no rule needs are skipped by their length.
"""

from connectors.errors import UndecodableError
from connectors.metadata.batches import BadBatch, RecordBatch, ScanItem, scan
from connectors.metadata.record_decoder import decode_batch
from connectors.metadata.record_framing import is_noop
from connectors.metadata.value_limits import LARGEST_INT32, LARGEST_OFFSET, valid_number
from connectors.observations.log_event import EpochDrop, LogAdvanced, Undecodable
from connectors.observations.partition_run import DecodedEvents
from rules.model.identifiers import Epoch, Millis, Offset, SnapshotId


def decode_records(
    payload: bytes,
    *,
    base_offset: int | None,
    last_offset: int | None,
    leader_epoch: int | None,
    high_watermark: int | None,
) -> DecodedEvents:
    """Decodes the payload of one `records` observation to events, in the order of the log.

    Args:
        payload: whole record batches of the log, redacted.
        base_offset: offset of the first batch, as observed; None if unknown.

    Returns:
        The last event is always a LogAdvanced; its newest timestamp and epochs include NoOps. An observed number that
        no Kafka reports becomes an Undecodable, and is unknown in the LogAdvanced.
    """
    events = DecodedEvents()
    first = _observed(events, "base offset", base_offset, 0, LARGEST_OFFSET)
    # The last offset of an empty log is -1.
    last = _observed(events, "last offset", last_offset, -1, LARGEST_OFFSET)
    epoch = _observed(events, "leader epoch", leader_epoch, 0, LARGEST_INT32)
    committed_end = _observed(events, "high watermark", high_watermark, 0, LARGEST_OFFSET)
    summary = _decode_batches(payload, events, snapshot=None, expected=first)
    events.append(
        LogAdvanced(
            base_offset=None if first is None else Offset(first),
            last_offset=None if last is None else Offset(last),
            leader_epoch=None if epoch is None else Epoch(epoch),
            high_watermark=None if committed_end is None else Offset(committed_end),
            newest_timestamp_ms=summary.newest_timestamp_ms,
            first_epoch=summary.first_epoch,
            last_epoch=summary.last_epoch,
            epoch_drop=summary.epoch_drop,
        )
    )
    return events


def decode_snapshot_piece(payload: bytes, *, end_offset: int, epoch: int) -> DecodedEvents:
    """Decodes one piece of a `.checkpoint` to events.

    Args:
        payload: whole record batches of the snapshot, redacted. Their offsets count within the snapshot file.
        end_offset: the snapshot's end offset: the offset after the last record that it contains.

    Returns:
        SnapshotBegan and SnapshotEnded come from the header and footer records. There is no LogAdvanced. A piece of a
        snapshot with an invalid end offset or epoch is one Undecodable.
    """
    events = DecodedEvents()
    numbers = (
        _observed(events, "snapshot end offset", end_offset, 0, LARGEST_OFFSET),
        _observed(events, "snapshot epoch", epoch, 0, LARGEST_INT32),
    )
    if None in numbers:
        return events
    _decode_batches(payload, events, snapshot=SnapshotId(end_offset=end_offset, epoch=epoch), expected=None)
    return events


class _BatchSummary:
    """The newest timestamp and the epochs of the readable batches, added in the order of the log."""

    def __init__(self) -> None:
        self.newest_timestamp_ms: Millis | None = None
        self.first_epoch: Epoch | None = None
        self.last_epoch: Epoch | None = None
        self.epoch_drop: EpochDrop | None = None
        """The first batch with a lower epoch than the batch before it."""

    def add(self, batch: RecordBatch) -> None:
        """Adds one batch."""
        epoch, before = Epoch(batch.leader_epoch), self.last_epoch
        if before is None:
            self.first_epoch = epoch
        elif epoch < before and self.epoch_drop is None:
            self.epoch_drop = EpochDrop(offset=Offset(batch.base_offset), epoch=epoch, before=before)
        self.last_epoch = epoch
        if self.newest_timestamp_ms is None or batch.max_timestamp > self.newest_timestamp_ms:
            self.newest_timestamp_ms = Millis(batch.max_timestamp)


def _observed(events: DecodedEvents, name: str, value: int | None, lowest: int, highest: int) -> int | None:
    """Returns a number of the observation; if it is out of range, None, and appends an Undecodable."""
    try:
        return None if value is None else valid_number(name, value, lowest, highest)
    except UndecodableError as error:
        events.append(Undecodable(offset=None, reason=f"the observation {error}", length=0))
        return None


def _decode_batches(
    payload: bytes, events: DecodedEvents, *, snapshot: SnapshotId | None, expected: int | None
) -> _BatchSummary:
    """Appends the events of all batches to `events`; returns what the readable batches show.

    Args:
        snapshot: the snapshot to which the payload belongs; None for the log.
        expected: the offset that the first batch must have; None accepts any.
    """
    summary = _BatchSummary()
    next_offset = expected
    for item in scan(payload, expected=expected):
        if isinstance(item, RecordBatch):
            if not is_noop(payload, item):
                decode_batch(payload, item, events, snapshot)
            summary.add(item)
            next_offset = item.last_offset + 1
        else:
            events.append(_unreadable(item, next_offset))
            header = item.header if isinstance(item, BadBatch) else None
            if header is None or next_offset is None:
                next_offset = None
            else:
                next_offset += max(header.last_offset_delta, 0) + 1
    return summary


def _unreadable(item: ScanItem, expected: int | None) -> Undecodable:
    """Returns the event of an unreadable batch, at its expected offset if that is known."""
    offset = item.base_offset if expected is None else expected
    reason = item.reason if isinstance(item, BadBatch) else "the batch is torn: its end is missing"
    known = offset is not None and 0 <= offset <= LARGEST_OFFSET
    return Undecodable(offset=Offset(offset) if offset is not None and known else None, reason=reason, length=item.size)
