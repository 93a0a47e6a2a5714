"""Dumps every record of a segment or snapshot of the metadata log, named and printed as by `kafka-dump-log`.

`decoder` decodes only what the streaming job needs; this module decodes all records of one file. Invalid bytes never
raise: unreadable records and batches are reported at their position, and the dump continues.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final, NamedTuple, TypeAlias

from connectors.errors import UndecodableError
from connectors.metadata.batches import MAGIC, MAGIC_AT, BadBatch, RecordBatch, TornTail, rejection_reason, scan
from connectors.metadata.field_readers import read_fitting, schema_readers
from connectors.metadata.record_framing import FramedRecord, framed_record, framed_records, record_header
from connectors.metadata.record_layouts import is_text, read_records
from connectors.metadata.record_rendering import FieldStyle, Json, rendered, text_of
from connectors.metadata.record_schemas import CREDENTIAL_FIELDS, record_schemas

CONTROL_NAMES: Final = {
    "LeaderChangeMessage": "LeaderChange",
    "SnapshotHeaderRecord": "SnapshotHeader",
    "SnapshotFooterRecord": "SnapshotFooter",
    "KRaftVersionRecord": "KRaftVersion",
    "VotersRecord": "KRaftVoters",
}
"""The names of the control records in `kafka-dump-log`."""
UNKNOWN: Final = "UNKNOWN"
"""The type of a record whose number no known Kafka version uses."""
LOG_APPEND_TIME: Final = 0x08
"""The bit of a batch's attributes with which the maximal timestamp is that of every record."""
_CONTROL: frozenset[str | None] = frozenset(CONTROL_NAMES.values())
_SNAPSHOT_HEADER = "SnapshotHeader"


class DumpedRecord(NamedTuple):
    """One record."""

    offset: int
    epoch: int
    timestamp: int
    """Milliseconds since the Unix epoch, by the leader's clock."""
    type: str | None
    """`PARTITION_CHANGE_RECORD`, `KRaftVoters`; UNKNOWN for an unknown number; None if the type cannot be read."""
    version: int | None
    data: dict[str, Json] | None
    """None if the record cannot be read; then `reason` is set."""
    length: int
    """Bytes of the record's value, or of all bytes that are skipped."""
    reason: str | None = None
    """Why there is no data; holds none of the record's bytes."""
    damaged: bool = False
    """The record is not only unknown: no Kafka writes such bytes."""
    number: int | None = None
    """The type's number if the type is UNKNOWN."""


class RecordText(NamedTuple):
    """One record whose fields `text_of` has rendered."""

    offset: int
    epoch: int
    timestamp: int
    """Milliseconds since the Unix epoch, by the leader's clock."""
    type: str
    version: int
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpGap:
    """Bytes that were not read, or missing records."""

    position: int
    """Position of the batch in the file."""
    size: int
    """Number of bytes skipped; 0 if records are missing."""
    offset: int | None
    reason: str


DumpEntry: TypeAlias = DumpedRecord | DumpGap


def dump_records(segment: bytes, *, kafka: str | None = None, secrets: bool = False) -> Iterator[DumpEntry]:
    """Yields every record of a file, in order, and what is not read between them.

    Args:
        kafka: read with the schemas of this version, one of `kafka_versions()`. None reads each record with the newest
            schema that fits.
        secrets: show credentials and the values of configurations, which are blanked otherwise.
    """
    for batch in readable_batches(segment):
        if isinstance(batch, DumpGap):
            yield batch
            continue
        for record in framed_records(segment, batch):
            yield dump_record(segment, batch, record, kafka, secrets=secrets)


def dump_texts(segment: bytes, *, style: FieldStyle, secrets: bool = False) -> Iterator[DumpEntry | RecordText]:
    """Yields what `dump_records` yields; the records that have a layout as texts of this style, which is faster."""
    # By layout: a log of odd records has thousands, one after the other.
    render = lru_cache(maxsize=1 << 13)(partial(text_of, style=style, secrets=secrets))
    for batch in readable_batches(segment):
        if isinstance(batch, DumpGap):
            yield batch
            continue
        base_offset, epoch = batch.base_offset, batch.leader_epoch
        timestamp = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else batch.base_timestamp
        for position, delta, layout, found in read_records(segment, batch):
            if layout is None:
                yield dump_record(segment, batch, found, None, secrets=secrets)
                continue
            try:
                data = render(layout)(found)
            except UnicodeDecodeError:
                data = None
            if data is None:
                record = framed_record(segment, position, batch, delta)
                yield dump_record(segment, batch, record, None, secrets=secrets)
            else:
                yield RecordText(base_offset + delta, epoch, timestamp, layout.constant, layout.version, data)


def readable_batches(segment: bytes) -> Iterator[RecordBatch | DumpGap]:
    """Yields the undamaged batches of a file in order, and what is missing between them."""
    next_offset: int | None = None
    for item in scan(segment):
        batch = item.header if isinstance(item, BadBatch) else item
        # An undamaged batch at an unexpected offset is read: the rest of the file is still useful.
        if not isinstance(batch, RecordBatch) or (batch is not item and rejection_reason(batch, None) is not None):
            assert not isinstance(item, RecordBatch)
            next_offset = None
            yield DumpGap(position=item.position, size=item.size, offset=item.base_offset, reason=_unread(item))
            continue
        if next_offset is not None and batch.base_offset != next_offset:
            reason = f"base offset {batch.base_offset}, expected {next_offset}"
            yield DumpGap(position=batch.position, size=0, offset=batch.base_offset, reason=reason)
        next_offset = batch.last_offset + 1
        yield batch


def is_record_log(segment: bytes) -> bool:
    """Whether the first bytes are a record batch of Kafka; the batch may be damaged or torn."""
    match next(scan(segment), None):
        case RecordBatch():
            return True
        case BadBatch() as bad:
            # A damaged batch with a valid length has an offset; other kinds of file have neither.
            return bad.base_offset is not None and segment[bad.position + MAGIC_AT] == MAGIC
        case TornTail() as torn:
            return torn.base_offset is not None and torn.size > MAGIC_AT
        case None:
            return False


def _unread(item: BadBatch | TornTail) -> str:
    if isinstance(item, BadBatch):
        return item.reason
    missing = "" if item.missing is None else f": {item.missing} bytes of its last batch are missing"
    return f"the file is torn{missing}"


def dump_record(
    segment: bytes, batch: RecordBatch, record: FramedRecord, kafka: str | None, *, secrets: bool
) -> DumpedRecord:
    """Decodes one record step by step, so that a damaged record still shows the parts that can be read."""
    appended = batch.attributes & LOG_APPEND_TIME
    start, end = record.value or (record.start, record.end)
    dumped = partial(
        DumpedRecord,
        offset=batch.base_offset + record.delta,
        epoch=batch.leader_epoch,
        timestamp=batch.max_timestamp if appended else batch.base_timestamp + record.timestamp_delta,
        length=end - start,
    )
    known, control = record_schemas(kafka), batch.is_control
    type_: str | None = None
    version: int | None = None
    try:
        number, version, body = record_header(segment, batch, record)
        schema = (known.control if control else known.records).get(number)
        if schema is None:
            reason = f"{'control record' if control else 'record'} type {number} is not known to {known.known_to}"
            return dumped(type=UNKNOWN, version=version, data=None, reason=reason, number=number)
        type_ = schema.constant or CONTROL_NAMES[schema.name]
        if version not in schema.versions:
            reason = f"version {version} of {type_} is not known to {known.known_to}"
            return dumped(type=type_, version=version, data=None, reason=reason)
        fitting, values = read_fitting(schema_readers(number, version, control=control, kafka=kafka), segment[body])
    except UndecodableError as error:
        reason = str(error) if type_ is None else f"the record {error}"
        return dumped(type=type_, version=version, data=None, reason=reason, damaged=True)
    blank = frozenset() if secrets else CREDENTIAL_FIELDS.get(schema.name, frozenset())
    data: dict[str, Json] = rendered(schema.versions[version][fitting], values, blank=blank)
    return dumped(type=type_, version=version, data=data)


@dataclass(slots=True, kw_only=True)
class LogSummary:
    """Counts of one file; complete when all its entries are added."""

    records: Counter[str] = field(default_factory=Counter)
    """Metadata records by type, undecodable ones included; `UNKNOWN 99` for a type that no known Kafka has."""
    control_records: Counter[str] = field(default_factory=Counter)
    undecodable: int = 0
    """Records that cannot be decoded, those of an unknown type or version included, and unreadable batches."""
    first_offset: int | None = None
    last_offset: int | None = None
    last_epoch: int | None = None

    def count(self, segment: bytes) -> Iterator[DumpEntry]:
        """Adds every record of a file; yields those that had to be decoded, and what is not read between them.

        Most records have a layout, which says their type: they are counted, and their values stay bytes.
        """
        for batch in readable_batches(segment):
            if isinstance(batch, DumpGap):
                self.add(batch)
                yield batch
                continue
            base_offset, epoch = batch.base_offset, batch.leader_epoch
            for position, delta, layout, found in read_records(segment, batch):
                if layout is not None and (not layout.has_texts or all(map(is_text, layout.texts(found)))):
                    self.records[layout.constant] += 1
                    self._end_at(base_offset + delta, epoch)
                    continue
                record = found if layout is None else framed_record(segment, position, batch, delta)
                entry = dump_record(segment, batch, record, None, secrets=False)
                self.add(entry)
                yield entry

    def add(self, entry: DumpEntry) -> None:
        """Adds a record or a gap; a gap without bytes is not counted."""
        if isinstance(entry, DumpGap):
            self.undecodable += entry.size > 0
            return
        self.undecodable += entry.data is None
        type_ = entry.type or "unreadable"
        if entry.number is not None:
            type_ = f"{type_} {entry.number}"
        (self.control_records if type_ in _CONTROL else self.records)[type_] += 1
        self._end_at(entry.offset, entry.epoch)

    def _end_at(self, offset: int, epoch: int) -> None:
        if self.first_offset is None:
            self.first_offset = offset
        self.last_offset, self.last_epoch = offset, epoch

    @property
    def is_snapshot(self) -> bool:
        """Whether the file is a `.checkpoint`."""
        return self.control_records[_SNAPSHOT_HEADER] > 0
