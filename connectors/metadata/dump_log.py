"""Transcript: every record of a segment or snapshot of the metadata log, as `kafka-dump-log` names and prints it.

What the streaming job needs is in `decode`; this is all there is, for people and programs that look at one file.
Nothing raises for what the bytes are: what cannot be read is told where it stands, and the transcript goes on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

from connectors.errors import UndecodableError
from connectors.metadata.batches import (
    MAGIC,
    MAGIC_AT,
    BadBatch,
    RecordBatch,
    ScanItem,
    TornTail,
    rejection_reason,
    scan,
)
from connectors.metadata.field_readers import FieldReader, field_reader, read_body
from connectors.metadata.json_rendering import Json, Renderer, renderer
from connectors.metadata.record_framing import FramedRecord, control_type, framed_records, value_type
from connectors.metadata.record_schemas import MergedSchema, merged_schemas
from connectors.metadata.redaction import CREDENTIAL_FIELDS

CONTROL_NAMES: Final = {
    "LeaderChangeMessage": "LeaderChange",
    "SnapshotHeaderRecord": "SnapshotHeader",
    "SnapshotFooterRecord": "SnapshotFooter",
    "KRaftVersionRecord": "KRaftVersion",
    "VotersRecord": "KRaftVoters",
}
"""What `kafka-dump-log` calls the control records."""
UNKNOWN: Final = "UNKNOWN"
"""The type of a record whose number no Kafka here has given away."""
_LOG_APPEND_TIME: Final = 0x08


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedRecord:
    """One record."""

    offset: int
    epoch: int
    timestamp: int
    """Milliseconds since the Unix epoch, by the clock of the controller that led."""
    type: str | None
    """`PARTITION_CHANGE_RECORD`, `KRaftVoters`; UNKNOWN for a number that nobody here knows; None where the record
    does not say."""
    version: int | None
    data: dict[str, Json] | None
    """None when it cannot be read; then there is a reason."""
    length: int
    """Bytes of the record's value, or of all that is passed over."""
    reason: str | None = None
    """Why there is no data; holds none of the record's bytes."""
    damaged: bool = False
    """Not merely unknown: it is not what any Kafka writes."""
    number: int | None = None
    """The type's number, where the type is UNKNOWN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpGap:
    """Bytes that were not read, or records that are not there."""

    position: int
    """Of the batch, in the file."""
    size: int
    """Bytes passed over; 0 where none are."""
    offset: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpPosition:
    """How far the transcript is."""

    position: int


DumpEntry: TypeAlias = DumpedRecord | DumpGap | DumpPosition


def dump_records(segment: bytes, *, kafka: str | None = None, secrets: bool = False) -> Iterator[DumpEntry]:
    """Every record of a file, in its order; a Reached behind each batch.

    Args:
        segment: the bytes of a `.log` or `.checkpoint`.
        kafka: read as this Kafka does, one of `kafka_versions()`; None reads each record as the newest Kafka does that can.
        secrets: show what is otherwise blanked: credentials, and the values of configurations.
    """
    follows: int | None = None
    for item in scan(segment):
        batch = _readable(item)
        if batch is None:
            assert not isinstance(item, RecordBatch)
            follows = None
            yield _unread(item)
            continue
        if follows is not None and batch.base_offset != follows:
            yield _jump(batch, follows)
        for record in framed_records(segment, batch):
            yield _transcribed(segment, batch, record, kafka, secrets=secrets)
        follows = batch.last_offset + 1
        yield DumpPosition(position=batch.end)


def _readable(item: ScanItem) -> RecordBatch | None:
    """A batch that is whole and undamaged, even where it should not be: the rest of the file is of use all the same."""
    match item:
        case RecordBatch():
            return item
        case BadBatch(header=header):
            return header if header is not None and rejection_reason(header, None) is None else None
        case TornTail():
            return None


def is_record_log(segment: bytes) -> bool:
    """Whether the first bytes are a record batch of Kafka, be it a damaged or torn one."""
    match next(scan(segment), None):
        case RecordBatch():
            return True
        case BadBatch() as bad:
            # A damaged batch of believable length has its offset; a file of another kind has neither.
            return bad.base_offset is not None and segment[bad.position + MAGIC_AT] == MAGIC
        case TornTail() as torn:
            return torn.base_offset is not None and torn.size > MAGIC_AT
        case None:
            return False


def _unread(item: BadBatch | TornTail) -> DumpGap:
    if isinstance(item, BadBatch):
        return DumpGap(position=item.position, size=item.size, offset=item.base_offset, reason=item.reason)
    missing = "" if item.missing is None else f": {item.missing} bytes of its last batch are not there"
    return DumpGap(position=item.position, size=item.size, offset=item.base_offset, reason=f"the file is torn{missing}")


def _jump(batch: RecordBatch, follows: int) -> DumpGap:
    reason = f"base offset {batch.base_offset} where {follows} follows"
    return DumpGap(position=batch.position, size=0, offset=batch.base_offset, reason=reason)


def _transcribed(
    segment: bytes, batch: RecordBatch, record: FramedRecord, kafka: str | None, *, secrets: bool
) -> DumpedRecord:
    """One record; what it says of itself is found out step by step, so that a damaged one tells what it can."""
    appended = batch.attributes & _LOG_APPEND_TIME
    timestamp = batch.max_timestamp if appended else batch.base_timestamp + record.timestamp_delta
    type_: str | None = None
    version: int | None = None
    number: int | None = None
    data: dict[str, Json] | None = None
    reason: str | None = None
    damaged = False
    start, end = record.value or (record.start, record.end)
    try:
        kind, found, version, body = _announced(segment, batch, record)
        known = _known(kind, kafka).get(found)
        type_, number = (UNKNOWN, found) if known is None else (_name(known), None)
        reason = _unknown(known, kind, found, version, kafka)
        if reason is None:
            data = _data(_ways(kind, found, version, kafka, secrets=secrets), segment[body:end])
    except UndecodableError as error:
        reason, damaged = str(error), True
    return DumpedRecord(
        offset=batch.base_offset + record.delta,
        epoch=batch.leader_epoch,
        timestamp=timestamp,
        type=type_,
        version=version,
        data=data,
        length=end - start,
        reason=reason,
        damaged=damaged,
        number=number,
    )


def _announced(segment: bytes, batch: RecordBatch, record: FramedRecord) -> tuple[str, int, int, int]:
    """Metadata or control, type, version, and where the body begins.

    Raises:
        UndecodableError: the record does not say.
    """
    if record.fault is not None:
        raise UndecodableError(record.fault)
    if record.value is None:
        raise UndecodableError("a record without a value")
    start, end = record.value
    if not batch.is_control:
        return "records", *value_type(segment, start, end)
    if end - start < 2:
        raise UndecodableError("a control record without a version")
    # Every control record begins with its own version, which is a field of it.
    version = int.from_bytes(segment[start : start + 2], "big", signed=True)
    return "control", control_type(segment, record.key), version, start


def _unknown(known: MergedSchema | None, kind: str, type_: int, version: int, kafka: str | None) -> str | None:
    """Why a record cannot be read though nothing is wrong with it, or None."""
    knows = merged_schemas(kafka).known_to
    if known is None:
        what = "record type" if kind == "records" else "control record type"
        return f"{what} {type_} is not known to {knows}"
    if version not in known.versions:
        return f"version {version} of {_name(known)} is not known to {knows}"
    return None


def _name(layout: MergedSchema) -> str:
    return layout.constant or CONTROL_NAMES.get(layout.name, layout.name)


def _data(ways: tuple["Way", ...], body: bytes) -> dict[str, Json]:
    """The fields by the first layout that fits the body to its last byte.

    Raises:
        UndecodableError: none fits; says what is wrong with the newest.
    """
    problem: UndecodableError | None = None
    for reader, render in ways:
        try:
            values = read_body(reader, body)
        except UndecodableError as error:
            problem = problem or error
        else:
            rendered: dict[str, Json] = render(values)
            return rendered
    raise UndecodableError(f"the record {problem}")


Way: TypeAlias = tuple[FieldReader, Renderer]
"""How one Kafka reads and prints one version of a record."""


def _known(kind: str, kafka: str | None) -> Mapping[int, MergedSchema]:
    known = merged_schemas(kafka)
    return known.records if kind == "records" else known.control


@cache
def _ways(kind: str, type_: int, version: int, kafka: str | None, *, secrets: bool) -> tuple[Way, ...]:
    """Every way in which a Kafka lays out this version of a record, the newest first."""
    known = _known(kind, kafka)[type_]
    blank = frozenset() if secrets else CREDENTIAL_FIELDS.get(known.name, frozenset())
    return tuple((field_reader(fields), renderer(fields, blank=blank)) for fields in known.versions[version])
