"""Decodes the payload of one `records` or `snapshot` observation to events, as columns.

Invalid bytes never raise. A batch or record that cannot be decoded becomes an Undecodable with offset and reason, and
decoding continues after it. Records that no rule needs are skipped by their length.
"""

from functools import cache, partial
from struct import error as StructError
from typing import NamedTuple

from connectors.errors import UndecodableError
from connectors.event import Event
from connectors.event_columns import EventColumns
from connectors.log_event import LogAdvanced, RecordPosition, SnapshotBegan, SnapshotEnded, Undecodable
from connectors.metadata.batch_summary import BatchSummary
from connectors.metadata.batches import BadBatch, RecordBatch, ScanItem, scan
from connectors.metadata.field_readers import Values
from connectors.metadata.partition_fast_path import PARTITION_READERS, PartitionReader, UnusualShape
from connectors.metadata.record_framing import (
    FRAME_VERSION,
    FramedRecord,
    control_type,
    framed_records,
    is_noop,
    value_header,
)
from connectors.metadata.record_readers import read_values
from connectors.metadata.record_schemas import merged_schemas
from connectors.metadata.record_to_event import CONTROL_CONVERTERS, CONVERTERS, Converter
from connectors.metadata.redaction import BLANK, CREDENTIAL_FIELDS
from connectors.metadata.value_limits import (
    LARGEST_INT32,
    LARGEST_OFFSET,
    LATEST_TIMESTAMP_MS,
    NO_TIMESTAMP,
    valid_number,
)
from rules.model.identifiers import Epoch, Millis, Offset


class SnapshotIdentity(NamedTuple):
    """The snapshot to which a piece belongs."""

    end_offset: Offset
    epoch: Epoch


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
    _decode_batches(payload, table, snapshot=SnapshotIdentity(Offset(end_offset), Epoch(epoch)), expected=None)
    return table


def _observed(table: EventColumns, name: str, value: int | None, lowest: int, highest: int) -> int | None:
    """Returns a number of the observation; if it is out of range, None, and appends an Undecodable."""
    try:
        return None if value is None else valid_number(name, value, lowest, highest)
    except UndecodableError as error:
        table.append(Undecodable(offset=None, reason=f"the observation {error}", length=0))
        return None


def _decode_batches(
    payload: bytes, table: EventColumns, *, snapshot: SnapshotIdentity | None, expected: int | None
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
    for item in scan(payload, expected=expected):
        if isinstance(item, RecordBatch):
            if not is_noop(payload, item):
                _decode_batch(payload, item, table, snapshot)
            summary.add(item)
            next_offset = item.last_offset + 1
        else:
            table.append(_unreadable(item, next_offset))
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


def _decode_batch(payload: bytes, batch: RecordBatch, table: EventColumns, snapshot: SnapshotIdentity | None) -> None:
    """Appends the events of one batch to `table`."""
    rows = table.rows
    skipped = _skipped_prefixes()
    fast = _fast_path_readers()
    for record in framed_records(payload, batch):
        start = b""
        if record.fault is None and record.key is None and record.value is not None:
            at, end = record.value
            start = payload[at : at + 3] if end - at >= 3 else b""
            if start in skipped and payload[end - 1] != BLANK:
                continue
            if start in fast:
                type_, reader = fast[start]
                try:
                    columns = reader(payload, at + 3, end)
                except (IndexError, StructError, UnusualShape):
                    # The reader made from the schema decodes the record or finds the error.
                    pass
                else:
                    offset = batch.base_offset + record.delta
                    timestamp = batch.base_timestamp + record.timestamp_delta
                    rows.append((type_, offset, batch.leader_epoch, timestamp, snapshot is not None, *columns))
                    continue
        event = _event(payload, batch, record, snapshot)
        if event is not None:
            table.append(event)


def _event(payload: bytes, batch: RecordBatch, record: FramedRecord, snapshot: SnapshotIdentity | None) -> Event | None:
    """Decodes one record; returns None if no rule needs it."""
    offset = Offset(batch.base_offset + record.delta)
    at = RecordPosition(
        offset=offset,
        leader_epoch=Epoch(batch.leader_epoch),
        timestamp_ms=Millis(batch.base_timestamp + record.timestamp_delta),
        snapshot=snapshot is not None,
    )
    reason = record.fault or _invalid_shape(batch, record)
    if reason is None:
        assert record.value is not None
        try:
            if batch.is_control:
                return _control_event(payload, record.value, record.key, at, snapshot)
            return _metadata_event(payload, record.value, at)
        except UndecodableError as error:
            reason = str(error)
    return Undecodable(offset=offset, reason=reason, length=record.end - record.start)


def _invalid_shape(batch: RecordBatch, record: FramedRecord) -> str | None:
    """Returns why KRaft cannot have written a record of this shape, or None."""
    if record.value is None:
        return "a record without a value"
    if record.key is not None and not batch.is_control:
        return "a metadata record with a key"
    return None


def _metadata_event(payload: bytes, value: tuple[int, int], at: RecordPosition) -> Event | None:
    api_key, version, body = value_header(payload, *value)
    schema = merged_schemas().records.get(api_key)
    if schema is None:
        raise UndecodableError(f"record type {api_key} version {version} is not known to {merged_schemas().known_to}")
    convert = CONVERTERS.get(schema.name)
    values = read_values(schema, version, payload[body : value[1]])
    return None if convert is None else _convert(convert, at, values, schema.name)


def _control_event(
    payload: bytes,
    value: tuple[int, int],
    key: tuple[int, int] | None,
    at: RecordPosition,
    snapshot: SnapshotIdentity | None,
) -> Event | None:
    type_ = control_type(payload, key)
    schema = merged_schemas().control.get(type_)
    if schema is None:
        raise UndecodableError(f"control record type {type_} is not known to {merged_schemas().known_to}")
    body = payload[value[0] : value[1]]
    # Every control record begins with its own version.
    values = read_values(schema, int.from_bytes(body[:2], "big", signed=True), body)
    convert = CONTROL_CONVERTERS.get(schema.name)
    if convert is not None:
        return _convert(convert, at, values, schema.name)
    if snapshot is None:
        raise UndecodableError(f"a {schema.name} outside a snapshot")
    if schema.name == "SnapshotFooterRecord":
        return SnapshotEnded(at=at, end_offset=snapshot.end_offset, epoch=snapshot.epoch)
    return _convert(partial(_snapshot_began, snapshot), at, values, schema.name)


def _snapshot_began(snapshot: SnapshotIdentity, at: RecordPosition, values: Values) -> SnapshotBegan:
    name, last_contained = "last contained timestamp", values["last_contained_log_timestamp"]
    return SnapshotBegan(
        at=at,
        end_offset=snapshot.end_offset,
        epoch=snapshot.epoch,
        last_contained_timestamp_ms=Millis(valid_number(name, last_contained, NO_TIMESTAMP, LATEST_TIMESTAMP_MS)),
    )


def _convert(convert: Converter, at: RecordPosition, values: Values, name: str) -> Event:
    try:
        return convert(at, values)
    except UndecodableError as error:
        raise UndecodableError(f"{name} {error}") from None


@cache
def _skipped_prefixes() -> frozenset[bytes]:
    """Returns the first three bytes (frame version, type, version) of the records that no rule needs."""
    return frozenset(
        bytes((FRAME_VERSION, schema.type, version))
        for schema in merged_schemas().records.values()
        if schema.name not in CONVERTERS and schema.name not in CREDENTIAL_FIELDS
        for version in schema.versions
    )


@cache
def _fast_path_readers() -> dict[bytes, tuple[str, PartitionReader]]:
    """Returns the event's `type` and the reader of each record of the fast path, by the same three bytes."""
    return {bytes((FRAME_VERSION, *version)): reader for version, reader in PARTITION_READERS.items()}
