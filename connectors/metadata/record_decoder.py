"""Decodes one metadata or control record to an event: the plain path, which decodes records of any shape.

`column_decoder` decodes the records of the usual shape many at a time, and must give the same events.
"""

from functools import cache, partial
from typing import Any, TypeAlias

from connectors.errors import UndecodableError
from connectors.event import Event
from connectors.event_columns import event_row
from connectors.log_event import RecordPosition, SnapshotBegan, SnapshotEnded, Undecodable
from connectors.metadata.batches import RecordBatch
from connectors.metadata.field_readers import Values
from connectors.metadata.partition_rows import row_of
from connectors.metadata.record_framing import (
    FRAME_VERSION,
    FramedRecord,
    control_type,
    framed_record,
    value_header,
)
from connectors.metadata.record_layouts import is_text, read_records
from connectors.metadata.record_readers import read_values
from connectors.metadata.record_schemas import CREDENTIAL_FIELDS, merged_schemas
from connectors.metadata.record_to_event import CONTROL_CONVERTERS, CONVERTERS, Converter
from connectors.metadata.redaction import BLANK
from connectors.metadata.value_limits import LATEST_TIMESTAMP_MS, NO_TIMESTAMP, valid_number
from rules.model.identifiers import Epoch, Millis, Offset, SnapshotId

Rows: TypeAlias = list[tuple[Any, ...]]
"""Events with the fields of EventRow."""


def decode_batch(payload: bytes, batch: RecordBatch, rows: Rows, snapshot: SnapshotId | None) -> None:
    """Appends the events of one batch to `rows`."""
    at = batch.leader_epoch, batch.base_timestamp, snapshot is not None
    for position, delta, layout, found in read_records(payload, batch):
        if layout is None:
            decode_record(payload, batch, found, rows, snapshot)
            continue
        if layout.schema.name not in CONVERTERS and all(map(is_text, layout.texts(found))):
            continue
        known = row_of(layout)
        row = None if known is None else known[1](found)
        if row is None:
            decode_record(payload, batch, framed_record(payload, position, batch, delta), rows, snapshot)
        else:
            assert known is not None
            rows.append((known[0], batch.base_offset + delta, *at, *row))


def decode_record(
    payload: bytes, batch: RecordBatch, record: FramedRecord, rows: Rows, snapshot: SnapshotId | None
) -> None:
    """Appends the event of one record to `rows`, unless no rule needs the record."""
    if record.fault is None and record.key is None and record.value is not None:
        at, end = record.value
        start = payload[at : at + 3] if end - at >= 3 else b""
        if start in skipped_prefixes() and payload[end - 1] != BLANK:
            return
    event = _event(payload, batch, record, snapshot)
    if event is not None:
        rows.append(event_row(event))


def _event(payload: bytes, batch: RecordBatch, record: FramedRecord, snapshot: SnapshotId | None) -> Event | None:
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
    snapshot: SnapshotId | None,
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
        return SnapshotEnded(at=at, end_offset=Offset(snapshot.end_offset), epoch=Epoch(snapshot.epoch))
    return _convert(partial(_snapshot_began, snapshot), at, values, schema.name)


def _snapshot_began(snapshot: SnapshotId, at: RecordPosition, values: Values) -> SnapshotBegan:
    name, last_contained = "last contained timestamp", values["last_contained_log_timestamp"]
    return SnapshotBegan(
        at=at,
        end_offset=Offset(snapshot.end_offset),
        epoch=Epoch(snapshot.epoch),
        last_contained_timestamp_ms=Millis(valid_number(name, last_contained, NO_TIMESTAMP, LATEST_TIMESTAMP_MS)),
    )


def _convert(convert: Converter, at: RecordPosition, values: Values, name: str) -> Event:
    try:
        return convert(at, values)
    except UndecodableError as error:
        raise UndecodableError(f"{name} {error}") from None


@cache
def skipped_prefixes() -> frozenset[bytes]:
    """Returns the first three bytes (frame version, type, version) of the records that no rule needs."""
    return frozenset(
        bytes((FRAME_VERSION, schema.type, version))
        for schema in merged_schemas().records.values()
        if schema.name not in CONVERTERS and schema.name not in CREDENTIAL_FIELDS
        for version in schema.versions
    )
