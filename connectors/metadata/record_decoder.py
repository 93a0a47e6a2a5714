"""Decodes the records of a batch to events: by their schema, and topic and partition records with a layout as a run.

Both ways give the same events. Records that no rule needs are skipped.
"""

from dataclasses import replace
from functools import cache, partial
from typing import Final

from connectors.errors import UndecodableError
from connectors.metadata.batches import RecordBatch
from connectors.metadata.field_readers import FieldReader, Values, field_reader, read_body
from connectors.metadata.record_framing import (
    FRAME_VERSION,
    FramedRecord,
    control_type,
    framed_record,
    value_header,
)
from connectors.metadata.record_layouts import RecordLayout, is_text, read_records
from connectors.metadata.record_schemas import CREDENTIAL_FIELDS, MergedSchema, merged_schemas
from connectors.metadata.record_to_event import CONTROL_CONVERTERS, CONVERTERS, Converter
from connectors.metadata.redaction import BLANK, is_blanked
from connectors.metadata.run_rows import RowOf, read_known, row_of
from connectors.metadata.value_limits import LATEST_TIMESTAMP_MS, NO_TIMESTAMP, valid_number
from connectors.observations.log_event import RecordPosition, SnapshotBegan, SnapshotEnded, Undecodable
from connectors.observations.observation import Event
from connectors.observations.partition_run import DecodedEvents, PartitionRun
from rules.model.identifiers import Epoch, Millis, Offset, SnapshotId

_ROW: Final = "row"
"""The key of what `row_of` returned in `RecordLayout.known`."""


def decode_batch(payload: bytes, batch: RecordBatch, events: DecodedEvents, snapshot: SnapshotId | None) -> None:
    """Appends the events of one batch to `events`."""
    run = PartitionRun(
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        timestamp_ms=batch.base_timestamp,
        snapshot=snapshot is not None,
    )
    position, delta = batch.body, 0
    while True:
        position, delta = read_known(payload, batch, position, delta, run.rows)
        for start, number, layout, found in read_records(payload, batch, position, delta):
            make = None if layout is None else _row_of(layout)
            if layout is not None and make is not None:
                row = make(payload, start, number, found)
                if row is not None:
                    run.rows.append(row)
                    position, delta = start + layout.size, number + 1
                    break
            elif layout is not None and layout.schema.name not in CONVERTERS and all(map(is_text, layout.texts(found))):
                continue
            record = found if layout is None else framed_record(payload, start, batch, number)
            event = None if _is_skipped(payload, record) else _event(payload, batch, record, snapshot)
            if event is not None:
                run = _ended(run, events)
                events.append(event)
        else:
            _ended(run, events)
            return


def _row_of(layout: RecordLayout) -> RowOf | None:
    known = layout.known
    if _ROW not in known:
        known[_ROW] = row_of(layout)
    made: RowOf | None = known[_ROW]
    return made


def _ended(run: PartitionRun, events: DecodedEvents) -> PartitionRun:
    """Appends a run, if it has rows; returns an empty one of the same batch."""
    if not run.rows:
        return run
    events.append(run)
    return replace(run, rows=[])


def _is_skipped(payload: bytes, record: FramedRecord) -> bool:
    """Returns whether no rule needs a record."""
    if record.fault is not None or record.key is not None or record.value is None:
        return False
    at, end = record.value
    return payload[at : min(at + 3, end)] in skipped_prefixes() and payload[end - 1] != BLANK


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
    values = _read_values(schema, version, payload[body : value[1]])
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
    values = _read_values(schema, int.from_bytes(body[:2], "big", signed=True), body)
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


def _read_values(schema: MergedSchema, version: int, body: bytes) -> Values:
    """Returns the fields of a body, read with the newest schema that fits it.

    Raises:
        UndecodableError: the version is unknown, or no schema fits; the reason names the record.
    """
    if version not in schema.versions:
        raise UndecodableError(f"{schema.name} version {version} is not known to {merged_schemas().known_to}")
    problem: UndecodableError | None = None
    for reader in _readers(schema.name, version):
        try:
            return read_body(reader, body)
        except UndecodableError as error:
            problem = problem or error
    if is_blanked(body):
        raise UndecodableError(f"{schema.name} version {version} did not match its schema and was blanked")
    raise UndecodableError(f"{schema.name} version {version} {problem}")


@cache
def _readers(name: str, version: int) -> tuple[FieldReader, ...]:
    """Returns the readers of a record's version, one for each schema, the newest first."""
    known = merged_schemas()
    schema = next(schema for schema in (*known.records.values(), *known.control.values()) if schema.name == name)
    return tuple(map(field_reader, schema.versions[version]))


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
