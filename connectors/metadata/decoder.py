"""Decodes the payload of one `records` or `snapshot` observation to events.

Records are decoded by their schema, and topic and partition records with a layout as a run: both ways give the same
events. Invalid bytes never raise. A batch or record that cannot be decoded becomes an Undecodable with offset and
reason, and decoding continues after it. Records of an unknown type or version are one UnknownRecords for each batch.
"""

from dataclasses import replace
from functools import partial

from connectors.errors import UndecodableError
from connectors.metadata.batches import BadBatch, RecordBatch, ScanItem, scan
from connectors.metadata.field_readers import Values, read_fitting, schema_readers
from connectors.metadata.record_framing import FramedRecord, framed_record, is_control_version, is_noop, record_header
from connectors.metadata.record_layouts import Raw, RecordLayout, is_text, read_records
from connectors.metadata.record_schemas import RecordSchema, record_schemas
from connectors.metadata.record_to_event import CONTROL_CONVERTERS, CONVERTERS, NEEDED_TEXT
from connectors.metadata.redaction import is_blanked, was_unknown
from connectors.metadata.run_rows import read_known, row_of
from connectors.metadata.value_limits import (
    LARGEST_INT32,
    LARGEST_OFFSET,
    LATEST_TIMESTAMP_MS,
    NO_TIMESTAMP,
    valid_number,
)
from connectors.observations.log_event import (
    EpochDrop,
    LogAdvanced,
    SnapshotBegan,
    SnapshotEnded,
    Undecodable,
    UnknownRecords,
)
from connectors.observations.observation import Event
from connectors.observations.partition_run import DecodedEvents, PartitionRun
from rules.model.identifiers import Epoch, Millis, Offset, SnapshotId
from rules.model.membership import RecordPosition


def decode_batch(payload: bytes, batch: RecordBatch, events: DecodedEvents, snapshot: SnapshotId | None) -> None:
    """Appends the events of one batch to `events`."""
    run = PartitionRun(
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        timestamp_ms=batch.base_timestamp,
        snapshot=snapshot is not None,
    )
    position, delta = batch.body, 0
    unknown: dict[str, int] = {}
    """Where in `events` the unknown records of this batch are, by their name."""
    while True:
        position, delta = read_known(payload, batch, position, delta, run.rows)
        for start, number, layout, found in read_records(payload, batch, position, delta):
            make = None if layout is None else row_of(layout)
            if layout is not None and make is not None:
                row = make(payload, start, number, found)
                if row is not None:
                    run.rows.append(row)
                    position, delta = start + layout.size, number + 1
                    break
            elif layout is not None and not _is_needed(layout, found) and all(map(is_text, layout.texts(found))):
                continue
            record = found if layout is None else framed_record(payload, start, batch, number)
            event = _event(payload, batch, record, snapshot)
            if isinstance(event, UnknownRecords) and event.name in unknown:
                _count(events, unknown[event.name])
            elif event is not None:
                run = _ended(run, events)
                if isinstance(event, UnknownRecords):
                    unknown[event.name] = len(events)
                events.append(event)
        else:
            _ended(run, events)
            return


def _is_needed(layout: RecordLayout, found: Raw) -> bool:
    """Returns whether a rule may need the record."""
    name = layout.schema.name
    return name in CONVERTERS and (name not in NEEDED_TEXT or not NEEDED_TEXT[name].isdisjoint(layout.texts(found)))


def _count(events: DecodedEvents, at: int) -> None:
    """Counts one more unknown record."""
    counted = events[at]
    assert isinstance(counted, UnknownRecords)
    events[at] = replace(counted, count=counted.count + 1)


def _ended(run: PartitionRun, events: DecodedEvents) -> PartitionRun:
    """Appends a run, if it has rows; returns an empty one of the same batch."""
    if not run.rows:
        return run
    events.append(run)
    return replace(run, rows=[])


def _event(payload: bytes, batch: RecordBatch, record: FramedRecord, snapshot: SnapshotId | None) -> Event | None:
    """Decodes one record; returns None if no rule needs it."""
    offset = Offset(batch.base_offset + record.delta)
    at = RecordPosition(
        offset=offset,
        leader_epoch=Epoch(batch.leader_epoch),
        timestamp_ms=Millis(batch.base_timestamp + record.timestamp_delta),
        snapshot=snapshot is not None,
    )
    try:
        return _decoded(payload, batch, record, at, snapshot)
    except UndecodableError as error:
        return Undecodable(offset=offset, reason=str(error), length=record.end - record.start)


def _decoded(
    payload: bytes, batch: RecordBatch, record: FramedRecord, at: RecordPosition, snapshot: SnapshotId | None
) -> Event | None:
    type_, version, body = record_header(payload, batch, record)
    control, known = batch.is_control, record_schemas()
    if record.key is not None and not control:
        raise UndecodableError("a metadata record with a key")
    schema = (known.control if control else known.records).get(type_)
    if schema is None:
        name = f"control record type {type_}" if control else f"record type {type_} version {version}"
        return UnknownRecords(at=at, name=name, kafka_class=None)
    if control and not is_control_version(version):
        raise UndecodableError(f"{schema.name} version {version} is not known to {known.known_to}")
    if version not in schema.versions or was_unknown(payload[body][2:] if control else payload[body]):
        return UnknownRecords(at=at, name=f"{schema.name} version {version}", kafka_class=schema.name)
    values = _read_values(schema, version, payload[body], control=control)
    convert = (CONTROL_CONVERTERS if control else CONVERTERS).get(schema.name)
    if control and convert is None:
        if snapshot is None:
            raise UndecodableError(f"a {schema.name} outside a snapshot")
        convert = partial(_snapshot_began if schema.name == "SnapshotHeaderRecord" else _snapshot_ended, snapshot)
    try:
        return None if convert is None else convert(at, values)
    except UndecodableError as error:
        raise UndecodableError(f"{schema.name} {error}") from None


def _snapshot_began(snapshot: SnapshotId, at: RecordPosition, values: Values) -> SnapshotBegan:
    name, last_contained = "last contained timestamp", values["last_contained_log_timestamp"]
    return SnapshotBegan(
        at=at,
        end_offset=Offset(snapshot.end_offset),
        epoch=Epoch(snapshot.epoch),
        last_contained_timestamp_ms=Millis(valid_number(name, last_contained, NO_TIMESTAMP, LATEST_TIMESTAMP_MS)),
    )


def _snapshot_ended(snapshot: SnapshotId, at: RecordPosition, _: Values) -> SnapshotEnded:
    return SnapshotEnded(at=at, end_offset=Offset(snapshot.end_offset), epoch=Epoch(snapshot.epoch))


def _read_values(schema: RecordSchema, version: int, body: bytes, *, control: bool) -> Values:
    """Returns the fields of a body, read with the newest schema that fits it. An error names the record."""
    try:
        return read_fitting(schema_readers(schema.type, version, control=control), body)[1]
    except UndecodableError as error:
        problem = "did not match its schema and was blanked" if is_blanked(body) else str(error)
        raise UndecodableError(f"{schema.name} version {version} {problem}") from None


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
            **vars(summary),
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
    """The newest times and the epochs of the readable batches, added in the order of the log."""

    def __init__(self) -> None:
        self.newest_timestamp_ms: Millis | None = None
        self.newest_noop_ms: Millis | None = None
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

    `expected` is the offset that the first batch must have; None accepts any.
    """
    summary = _BatchSummary()
    next_offset = expected
    for item in scan(payload, expected=expected):
        if isinstance(item, RecordBatch):
            if is_noop(payload, item):
                summary.newest_noop_ms = Millis(max(item.max_timestamp, summary.newest_noop_ms or 0))
            else:
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
