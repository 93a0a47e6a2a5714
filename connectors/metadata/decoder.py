"""Decodes the payload of one `records` or `snapshot` observation to events, as columns.

Invalid bytes never raise. A batch or record that cannot be decoded becomes an Undecodable with offset and reason, and
decoding continues after it. Records that no rule needs are skipped by their length.
"""

from typing import Final

from connectors.errors import UndecodableError
from connectors.event_columns import EventColumns
from connectors.log_event import LogAdvanced, Undecodable
from connectors.metadata.batch_summary import BatchSummary
from connectors.metadata.batches import MOST_BYTES, BadBatch, RecordBatch, ScanItem, scan
from connectors.metadata.record_decoder import decode_batch
from connectors.metadata.record_framing import is_noop
from connectors.metadata.value_limits import LARGEST_INT32, LARGEST_OFFSET, valid_number
from rules.model.identifiers import Epoch, Offset, SnapshotId

FEWEST_RECORDS: Final = 128
"""Fewer records are decoded one by one: numpy's fixed cost is higher."""


def decode_records(
    payload: bytes,
    *,
    base_offset: int | None,
    last_offset: int | None,
    leader_epoch: int | None,
    high_watermark: int | None,
) -> EventColumns:
    """Decodes the payload of one `records` observation to events, in the order of the log.

    Args:
        payload: whole record batches of the log, redacted.
        base_offset: offset of the first batch, as observed; None if unknown.
        last_offset: offset of the last record, as observed.
        leader_epoch: the leader's epoch, as observed.
        high_watermark: as observed.

    Returns:
        The last event is always a LogAdvanced; its newest timestamp and epochs include NoOps. An observed number that
        no Kafka reports becomes an Undecodable, and is unknown in the LogAdvanced.
    """
    table = EventColumns()
    first = _observed(table, "base offset", base_offset, 0, LARGEST_OFFSET)
    # The last offset of an empty log is -1.
    last = _observed(table, "last offset", last_offset, -1, LARGEST_OFFSET)
    epoch = _observed(table, "leader epoch", leader_epoch, 0, LARGEST_INT32)
    committed_end = _observed(table, "high watermark", high_watermark, 0, LARGEST_OFFSET)
    summary = _decode_batches(payload, table, snapshot=None, expected=first)
    table.append(
        LogAdvanced(
            last_offset=None if last is None else Offset(last),
            leader_epoch=None if epoch is None else Epoch(epoch),
            high_watermark=None if committed_end is None else Offset(committed_end),
            newest_timestamp_ms=summary.newest_timestamp_ms,
            first_epoch=summary.first_epoch,
            last_epoch=summary.last_epoch,
            epoch_drop=summary.epoch_drop,
        )
    )
    return table


def decode_snapshot_piece(payload: bytes, *, end_offset: int, epoch: int) -> EventColumns:
    """Decodes one piece of a `.checkpoint` to events.

    Args:
        payload: whole record batches of the snapshot, redacted. Their offsets count within the snapshot file.
        end_offset: the snapshot's end offset: the offset after the last record that it contains.
        epoch: the snapshot's epoch.

    Returns:
        SnapshotBegan and SnapshotEnded come from the header and footer records. There is no LogAdvanced. A piece of a
        snapshot with an invalid end offset or epoch is one Undecodable.
    """
    table = EventColumns()
    numbers = (
        _observed(table, "snapshot end offset", end_offset, 0, LARGEST_OFFSET),
        _observed(table, "snapshot epoch", epoch, 0, LARGEST_INT32),
    )
    if None in numbers:
        return table
    _decode_batches(payload, table, snapshot=SnapshotId(end_offset=end_offset, epoch=epoch), expected=None)
    return table


def _observed(table: EventColumns, name: str, value: int | None, lowest: int, highest: int) -> int | None:
    """Returns a number of the observation; if it is out of range, None, and appends an Undecodable."""
    try:
        return None if value is None else valid_number(name, value, lowest, highest)
    except UndecodableError as error:
        table.append(Undecodable(offset=None, reason=f"the observation {error}", length=0))
        return None


def _decode_batches(
    payload: bytes, table: EventColumns, *, snapshot: SnapshotId | None, expected: int | None
) -> BatchSummary:
    """Appends the events of all batches to `table`; returns what the readable batches show.

    Args:
        payload: record batches.
        table: receives the events.
        snapshot: the snapshot to which the payload belongs; None for the log.
        expected: the offset that the first batch must have; None accepts any.
    """
    summary = BatchSummary()
    next_offset = expected
    run: _BatchRun | None = None
    for item in scan(payload, expected=expected):
        if isinstance(item, RecordBatch):
            if not is_noop(payload, item):
                run = run or _BatchRun(payload, table, snapshot)
                run.add(item)
            summary.add(item)
            next_offset = item.last_offset + 1
        else:
            if run is not None:
                run.decode()
            table.append(_unreadable(item, next_offset))
            header = item.header if isinstance(item, BadBatch) else None
            if header is None or next_offset is None:
                next_offset = None
            else:
                next_offset += max(header.last_offset_delta, 0) + 1
    if run is not None:
        run.decode()
    return summary


class _BatchRun:
    """Batches of metadata records that are decoded together, in the order of the log."""

    def __init__(self, payload: bytes, table: EventColumns, snapshot: SnapshotId | None) -> None:
        self._payload = payload
        self._table = table
        self._snapshot = snapshot
        self._batches: list[RecordBatch] = []
        self._records = 0

    def add(self, batch: RecordBatch) -> None:
        """Adds the next batch."""
        if batch.is_control:
            self.decode()
            decode_batch(self._payload, batch, self._table.rows, self._snapshot)
            return
        self._batches.append(batch)
        self._records += batch.record_count
        if batch.end - self._batches[0].position >= MOST_BYTES:
            self.decode()

    def decode(self) -> None:
        """Appends the events of the batches that were added since the last call."""
        batches, records = self._batches, self._records
        self._batches, self._records = [], 0
        if records < FEWEST_RECORDS:
            for batch in batches:
                decode_batch(self._payload, batch, self._table.rows, self._snapshot)
        else:
            # Imported here, because on-call commands that read little need no numpy.
            from connectors.metadata.column_decoder import decode_batches

            self._table.append_block(decode_batches(self._payload, batches, self._snapshot))


def _unreadable(item: ScanItem, expected: int | None) -> Undecodable:
    """Returns the event of an unreadable batch, at its expected offset if that is known."""
    offset = item.base_offset if expected is None else expected
    reason = item.reason if isinstance(item, BadBatch) else "the batch is torn: its end is missing"
    known = offset is not None and 0 <= offset <= LARGEST_OFFSET
    return Undecodable(offset=Offset(offset) if offset is not None and known else None, reason=reason, length=item.size)
