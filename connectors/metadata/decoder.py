"""Decode: the payload of one `records` or `snapshot` observation to its events, as columns.

Never raises for what the bytes are. A batch or record that is not what it should be becomes an Undecodable
with where and why, and the stream goes on behind it. Records that no rule needs are passed over by length.
"""

from functools import cache
from struct import error as StructError
from typing import NamedTuple

from connectors.errors import UndecodableError
from connectors.event import Event
from connectors.event_columns import EventColumns
from connectors.log_event import LogAdvanced, RecordPosition, SnapshotBegan, SnapshotEnded, Undecodable
from connectors.metadata.batches import BadBatch, RecordBatch, ScanItem, scan
from connectors.metadata.field_readers import FieldReader, Values, field_reader, read_body
from connectors.metadata.partition_fast_path import PARTITION_READERS, PartitionReader, UnusualShape
from connectors.metadata.record_framing import (
    FRAME_VERSION,
    FramedRecord,
    control_type,
    framed_records,
    is_noop,
    value_type,
)
from connectors.metadata.record_schemas import MergedSchema, merged_schemas
from connectors.metadata.record_to_event import CONTROL_CONVERTERS, CONVERTERS, Converter
from connectors.metadata.redaction import CREDENTIAL_FIELDS
from connectors.observation import ObservationKind
from rules.model.identifiers import Epoch, Millis, Offset


class SnapshotId(NamedTuple):
    """The snapshot a piece is of."""

    end_offset: Offset
    epoch: Epoch


def decode(
    payload: bytes,
    *,
    kind: str,
    base_offset: int | None,
    last_offset: int | None,
    leader_epoch: int | None,
    high_watermark: int | None,
) -> EventColumns:
    """The events of one observation, in the order of the log.

    Args:
        payload: whole record batches, redacted.
        kind: `records` (of the log) or `snapshot` (a piece of one); the other arguments are the observation's, with
            the meaning that `connectors.observation` gives them for each kind.
        base_offset: of the first batch; of a snapshot its end offset.
        last_offset: of the last record; of a snapshot unused.
        leader_epoch: as observed; of a snapshot its epoch.
        high_watermark: as observed.

    Returns:
        For `records` the last event is always a LogAdvanced, NoOps included in its newest timestamp. For
        `snapshot` there is none; SnapshotBegan and SnapshotEnded come from the header and footer records.
    """
    snapshot = (
        SnapshotId(Offset(base_offset or 0), Epoch(leader_epoch or 0)) if kind == ObservationKind.SNAPSHOT else None
    )
    assert snapshot is not None or kind == ObservationKind.RECORDS
    table = EventColumns()
    newest: int | None = None
    follows = base_offset if snapshot is None else None
    for item in scan(payload, expected=follows):
        if isinstance(item, RecordBatch):
            if not is_noop(payload, item):
                _batch(payload, item, table, snapshot)
            if newest is None or item.max_timestamp > newest:
                newest = item.max_timestamp
            follows = item.last_offset + 1
        else:
            table.append(_unreadable(item, follows))
            header = item.header if isinstance(item, BadBatch) else None
            follows = None if header is None or follows is None else follows + max(header.last_offset_delta, 0) + 1
    if snapshot is None:
        table.append(
            LogAdvanced(
                last_offset=None if last_offset is None else Offset(last_offset),
                leader_epoch=None if leader_epoch is None else Epoch(leader_epoch),
                high_watermark=None if high_watermark is None else Offset(high_watermark),
                newest_timestamp_ms=None if newest is None else Millis(newest),
            )
        )
    return table


def _unreadable(item: ScanItem, follows: int | None) -> Undecodable:
    """A batch that was not read, at the offset where it should be when that is known."""
    offset = item.base_offset if follows is None else follows
    reason = item.reason if isinstance(item, BadBatch) else "the batch is torn: the rest of it is not there"
    return Undecodable(offset=None if offset is None or offset < 0 else Offset(offset), reason=reason, length=item.size)


def _batch(payload: bytes, batch: RecordBatch, table: EventColumns, snapshot: SnapshotId | None) -> None:
    """Every record of one batch."""
    rows = table.rows
    passed_over = _passed_over()
    by_hand = _by_hand()
    for record in framed_records(payload, batch):
        start = b""
        if record.fault is None and record.key is None and record.value is not None:
            at, end = record.value
            start = payload[at : at + 3] if end - at >= 3 else b""
            if start in passed_over:
                continue
            if start in by_hand:
                type_, reader = by_hand[start]
                try:
                    tail = reader(payload, at + 3, end)
                except (IndexError, StructError, UnusualShape):
                    # The reader made from the layout says what it is, or what is wrong with it.
                    pass
                else:
                    offset = batch.base_offset + record.delta
                    timestamp = batch.base_timestamp + record.timestamp_delta
                    rows.append((type_, offset, batch.leader_epoch, timestamp, snapshot is not None, *tail))
                    continue
        event = _event(payload, batch, record, snapshot)
        if event is not None:
            table.append(event)


def _event(payload: bytes, batch: RecordBatch, record: FramedRecord, snapshot: SnapshotId | None) -> Event | None:
    """What one record says; None where it is not needed."""
    offset = Offset(batch.base_offset + record.delta)
    at = RecordPosition(
        offset=offset,
        leader_epoch=Epoch(batch.leader_epoch),
        timestamp_ms=Millis(batch.base_timestamp + record.timestamp_delta),
        snapshot=snapshot is not None,
    )
    reason = record.fault or _misplaced(batch, record)
    if reason is None:
        assert record.value is not None
        try:
            if batch.is_control:
                return _of_control(payload, record.value, record.key, at, snapshot)
            return _of_metadata(payload, record.value, at)
        except UndecodableError as error:
            reason = str(error)
    return Undecodable(offset=offset, reason=reason, length=record.end - record.start)


def _misplaced(batch: RecordBatch, record: FramedRecord) -> str | None:
    """Why a whole record is none that KRaft writes, or None."""
    if record.value is None:
        return "a record without a value"
    if record.key is not None and not batch.is_control:
        return "a metadata record with a key, where none belongs"
    return None


def _of_metadata(payload: bytes, value: tuple[int, int], at: RecordPosition) -> Event | None:
    api_key, version, body = value_type(payload, *value)
    layout = merged_schemas().records.get(api_key)
    if layout is None:
        raise UndecodableError(f"record type {api_key} version {version} is not known to {merged_schemas().known_to}")
    translate = CONVERTERS.get(layout.name)
    if translate is None and layout.name not in CREDENTIAL_FIELDS:
        return None
    values = _values(layout, version, payload[body : value[1]])
    return None if translate is None else _said(translate, at, values, layout.name)


def _of_control(
    payload: bytes, value: tuple[int, int], key: tuple[int, int] | None, at: RecordPosition, snapshot: SnapshotId | None
) -> Event | None:
    type_ = control_type(payload, key)
    layout = merged_schemas().control.get(type_)
    if layout is None:
        raise UndecodableError(f"control record type {type_} is not known to {merged_schemas().known_to}")
    body = payload[value[0] : value[1]]
    # Every control record begins with its own version.
    values = _values(layout, int.from_bytes(body[:2], "big", signed=True), body)
    translate = CONTROL_CONVERTERS.get(layout.name)
    if translate is not None:
        return _said(translate, at, values, layout.name)
    if snapshot is None:
        raise UndecodableError(f"a {layout.name} outside a snapshot")
    if layout.name == "SnapshotFooterRecord":
        return SnapshotEnded(at=at, end_offset=snapshot.end_offset, epoch=snapshot.epoch)
    timestamp = Millis(values["last_contained_log_timestamp"])
    return SnapshotBegan(
        at=at, end_offset=snapshot.end_offset, epoch=snapshot.epoch, last_contained_timestamp_ms=timestamp
    )


def _values(layout: MergedSchema, version: int, body: bytes) -> Values:
    """The fields of a body by the newest layout that fits it."""
    if version not in layout.versions:
        raise UndecodableError(f"{layout.name} version {version} is not known to {merged_schemas().known_to}")
    problem: UndecodableError | None = None
    for reader in _readers(layout.name, version):
        try:
            return read_body(reader, body)
        except UndecodableError as error:
            problem = problem or error
    raise UndecodableError(f"{layout.name} version {version} {problem}")


def _said(translate: Converter, at: RecordPosition, values: Values, name: str) -> Event:
    try:
        return translate(at, values)
    except UndecodableError as error:
        raise UndecodableError(f"{name} {error}") from None


@cache
def _readers(name: str, version: int) -> tuple[FieldReader, ...]:
    """The readers made from a record's layouts, the newest first."""
    known = merged_schemas()
    layout = next(layout for layout in (*known.records.values(), *known.control.values()) if layout.name == name)
    return tuple(map(field_reader, layout.versions[version]))


@cache
def _passed_over() -> frozenset[bytes]:
    """The first bytes of the records that are not needed."""
    return frozenset(
        bytes((FRAME_VERSION, layout.type, version))
        for layout in merged_schemas().records.values()
        if layout.name not in CONVERTERS and layout.name not in CREDENTIAL_FIELDS
        for version in layout.versions
    )


@cache
def _by_hand() -> dict[bytes, tuple[str, PartitionReader]]:
    """Likewise of the records that are read by hand."""
    return {bytes((FRAME_VERSION, *which)): reader for which, reader in PARTITION_READERS.items()}
