"""CompleteLog: all metadata that a stopped replica holds, from its newest whole snapshot to the end of its log.

As Kafka itself would read it at its next start: a torn or damaged end of the last segment is ignored. What Kafka may
read and this module does not know is refused: a snapshot without it would hold less than the log. The log can be
written as one snapshot with other voter endpoints, as KIP-1347 describes (Snapshot Creation).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from connectors.errors import UndecodableError, UsageError
from connectors.logdir.log_dir_files import LogDirFiles, SegmentFile
from connectors.logdir.log_dir_reader import DamagedFile, LogContinues, ReadStart, read_log_dir
from connectors.metadata.batch_writer import (
    ControlRecordType,
    RecordContent,
    control_record,
    with_position,
    write_batch,
)
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.field_readers import Values, read_fitting, schema_readers
from connectors.metadata.record_framing import FramedRecord, framed_records, value_header
from connectors.metadata.record_schemas import record_schemas
from connectors.observations.observation import Observation, ObservationKind
from rules.model.identifiers import Endpoint, Epoch, NodeId, Offset

_LEADER_CHANGE: Final = 2
_STATE: Final = frozenset({ControlRecordType.KRAFT_VERSION, ControlRecordType.VOTERS})
"""The control records that are written again; the others describe the file or an election."""
_IN_LOG: Final = _STATE | {_LEADER_CHANGE}
_IN_SNAPSHOT: Final = _STATE | {ControlRecordType.SNAPSHOT_HEADER, ControlRecordType.SNAPSHOT_FOOTER}
_LATEST_KRAFT_VERSION: Final = 1
_CONTROL_KEY: Final = 4
_VERSION: Final = 2
"""Bytes of the version, with which each control record begins."""
_OTHERS: Final = "rescue the other nodes, and this one fetches the log from their leader"
_BEGIN: Final = 23
_END: Final = 24
_ABORT: Final = 25
_MARKERS: Final = frozenset((_BEGIN, _END, _ABORT))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """Records to keep: one whole batch, with any position."""

    content: bytes
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteLog:
    """What a replica holds, ready to be written as one snapshot."""

    batches: tuple[CommittedBatch, ...]
    """The metadata records in order, without control records and transactions."""
    end_offset: int
    """The offset after the last record of the log."""
    epoch: int
    """Of the last record of the log."""
    epoch_ends: Mapping[Epoch, Offset]
    """For each leader epoch in the log's segments, the offset after its last record there."""
    epoch_begins: Mapping[Epoch, tuple[Offset, int]]
    """For each leader epoch whose beginning is in the segments, the offset and the checksum of its first batch."""
    newest_ms: int
    """Timestamp of the newest record."""
    kraft_version: int
    voters: Values
    """The newest VotersRecord, by its schema's field names; empty for a static quorum."""
    damaged: tuple[DamagedFile, ...]
    """What is ignored: the end of the last segment, or damaged snapshots."""

    @property
    def records(self) -> int:
        """The number of metadata records."""
        return sum(batch.records for batch in self.batches)


def read_complete_log(files: LogDirFiles, *, static: bool = False) -> CompleteLog:
    """Reads everything; `static`: of a static quorum, whose log holds no voter set.

    Raises:
        UsageError: the log does not reach back to its beginning or to a whole snapshot, is damaged before its end, has
            an open transaction at its end, holds no voter set, or holds what Kafka may read and this module does not.
    """
    reading = _SegmentReading(files.segments)
    for item in read_log_dir(files, ""):
        match item:
            case ReadStart():
                reading.start(item)
                reading.follow_covered()
            case DamagedFile():
                reading.damaged.append(item)
            case Observation():
                reading.add(item)
            case LogContinues():
                raise AssertionError("the log is read to its end")
    last_segment = files.segments[-1].name if files.segments else None
    for damage in reading.damaged:
        if damage.undamaged:
            raise UsageError(
                f"{damage.file} is not read from byte {damage.position} on, where Kafka may find records "
                f"({damage.reason}): {_OTHERS}"
            )
        if damage.file.endswith(".log") and damage.file != last_segment:
            raise UsageError(
                f"{damage.file} is damaged at byte {damage.position} ({damage.reason}), and later segments follow it: "
                f"{_OTHERS}"
            )
    return reading.result(static=static)


class _SegmentReading:
    """What was read so far, without the metadata transactions (KIP-868).

    A snapshot holds no transactions, so what `BeginTransactionRecord` and `EndTransactionRecord` enclose becomes plain
    records, and what was aborted is left out (Kafka's `MetadataBatchLoader`).
    """

    def __init__(self, segments: Sequence[SegmentFile]) -> None:
        self.damaged: list[DamagedFile] = []
        self._segments = segments
        self._batches: list[CommittedBatch] = []
        self._began_at: int | None = None
        """Offset of the open transaction's first record; None if none is open."""
        self._held: list[CommittedBatch] = []
        """The batches of the open transaction."""
        self._control: dict[int, Values] = {}
        self._snapshot: str | None = None
        self._next = 0
        self._epoch = 0
        self._epoch_ends: dict[Epoch, Offset] = {}
        self._epoch_begins: dict[Epoch, tuple[Offset, int]] = {}
        self._newest_ms = 0

    def start(self, item: ReadStart) -> None:
        if item.snapshot is None and item.offset > 0:
            raise UsageError(
                f"the log begins at offset {item.offset}, and no whole snapshot holds the records before it"
            )
        self._snapshot, self._next = item.snapshot, item.offset

    def follow_covered(self) -> None:
        """Adds the epochs of the records that the snapshot covers, as far as the segments still hold them."""
        for segment in self._segments:
            if segment.base_offset >= self._next:
                return
            for batch in scan(segment.read()):
                if not isinstance(batch, RecordBatch) or batch.last_offset >= self._next:
                    break
                self._add_epoch(batch)

    def add(self, observation: Observation) -> None:
        in_snapshot = observation.kind is ObservationKind.SNAPSHOT
        if in_snapshot:
            self._epoch = observation.leader_epoch or 0
            self._newest_ms = observation.observed_at_ms
        for batch in scan(observation.payload):
            assert isinstance(batch, RecordBatch), "the reader yields whole batches only"
            if not in_snapshot:
                self._follow(batch)
            if batch.is_control:
                self._add_control(observation.payload, batch, in_snapshot=in_snapshot)
            else:
                self._add_records(observation.payload, batch, in_snapshot=in_snapshot)

    def _file_at(self, offset: int, *, in_snapshot: bool) -> str | None:
        if in_snapshot:
            return self._snapshot
        return next((segment.name for segment in reversed(self._segments) if segment.base_offset <= offset), None)

    def _follow(self, batch: RecordBatch) -> None:
        at = f"{self._file_at(batch.base_offset, in_snapshot=False)}: a batch at offset {batch.base_offset}"
        if batch.base_offset != self._next:
            raise UsageError(f"{at} follows records that end at {self._next}: {_OTHERS}")
        if batch.leader_epoch < self._epoch:
            raise UsageError(f"{at} has epoch {batch.leader_epoch} after epoch {self._epoch}: {_OTHERS}")
        self._next, self._epoch = batch.last_offset + 1, batch.leader_epoch
        self._newest_ms = max(self._newest_ms, batch.max_timestamp)
        self._add_epoch(batch)

    def _add_epoch(self, batch: RecordBatch) -> None:
        epoch = Epoch(batch.leader_epoch)
        if epoch not in self._epoch_ends and (self._epoch_ends or batch.base_offset == 0):
            self._epoch_begins[epoch] = (Offset(batch.base_offset), batch.crc)
        self._epoch_ends[epoch] = Offset(batch.last_offset + 1)

    def _add_records(self, chunk: bytes, batch: RecordBatch, *, in_snapshot: bool) -> None:
        records: list[tuple[Offset, int, bytes]] = []
        for record in framed_records(chunk, batch):
            offset = Offset(batch.base_offset + record.delta)
            try:
                records.append((offset, *_metadata_value(chunk, record)))
            except UndecodableError as problem:
                file = self._file_at(offset, in_snapshot=in_snapshot)
                raise UsageError(f"{file}: the record at offset {offset} {problem}") from None
        if all(type_ not in _MARKERS for _, type_, _ in records):
            self._keep(CommittedBatch(content=chunk[batch.position : batch.end], records=batch.record_count))
            return
        run: list[RecordContent] = []
        for offset, type_, value in records:
            if type_ not in _MARKERS:
                run.append(RecordContent(None, value))
                continue
            self._keep_run(run, batch)
            run = []
            self._mark(type_, f"{self._file_at(offset, in_snapshot=in_snapshot)}: a transaction", offset)
        self._keep_run(run, batch)

    def _keep_run(self, run: list[RecordContent], batch: RecordBatch) -> None:
        if run:
            content = write_batch(run, base_offset=0, leader_epoch=0, timestamp_ms=batch.max_timestamp, control=False)
            self._keep(CommittedBatch(content=content, records=len(run)))

    def _keep(self, batch: CommittedBatch) -> None:
        (self._batches if self._began_at is None else self._held).append(batch)

    def _mark(self, type_: int, what: str, offset: int) -> None:
        if (type_ == _BEGIN) == (self._began_at is not None):
            state = "while another transaction is open" if type_ == _BEGIN else "while no transaction is open"
            verb = {_BEGIN: "begins", _END: "ends", _ABORT: "is aborted"}[type_]
            raise UsageError(f"{what} {verb} at offset {offset} {state}: {_OTHERS}")
        if type_ == _END:
            self._batches += self._held
        self._began_at, self._held = offset if type_ == _BEGIN else None, []

    def _add_control(self, chunk: bytes, batch: RecordBatch, *, in_snapshot: bool) -> None:
        for record in framed_records(chunk, batch):
            try:
                type_, values = _control_values(chunk, record, in_snapshot=in_snapshot)
            except UndecodableError as problem:
                offset = batch.base_offset + record.delta
                raise UsageError(
                    f"{self._file_at(offset, in_snapshot=in_snapshot)}: the control record at offset {offset} "
                    f"{problem}, so the written snapshot would lose it: a newer kraftwatch may know it; "
                    "nothing was changed"
                ) from None
            self._control[type_] = values

    def result(self, *, static: bool) -> CompleteLog:
        latest = max(self._epoch_ends, default=Epoch(0))
        if latest > self._epoch:
            raise UsageError(
                f"{self._snapshot} is of epoch {self._epoch}, and the log below it has records of epoch {latest}: "
                f"{_OTHERS}"
            )
        if self._began_at is not None:
            raise UsageError(
                f"a metadata transaction that began at offset {self._began_at} is still open at the end "
                "of the log: whether it will be committed is unknown, so no snapshot of it can be written"
            )
        version = self._control.get(ControlRecordType.KRAFT_VERSION, {}).get("kraft_version", 0)
        voters = self._control.get(ControlRecordType.VOTERS)
        if static:
            version, voters = 0, {}
        elif not version or voters is None:
            raise UsageError("the log holds no voter set: this is a static quorum")
        return CompleteLog(
            batches=tuple(self._batches),
            end_offset=self._next,
            epoch=self._epoch,
            epoch_ends=self._epoch_ends,
            epoch_begins=self._epoch_begins,
            newest_ms=self._newest_ms,
            kraft_version=int(version),
            voters=voters,
            damaged=tuple(self.damaged),
        )


def _metadata_value(chunk: bytes, record: FramedRecord) -> tuple[int, bytes]:
    """Returns the type of a metadata record, and its value with the type.

    Raises:
        UndecodableError: it is no metadata record, or one of a later Kafka, which may not be valid in a snapshot.
    """
    if record.fault is not None or record.value is None or record.key is not None:
        raise UndecodableError(f"cannot be read ({record.fault or 'it has a key or no value'}): {_OTHERS}")
    try:
        type_, version, _ = value_header(chunk, *record.value)
    except UndecodableError as problem:
        raise UndecodableError(f"cannot be read ({problem}): {_OTHERS}") from None
    known = record_schemas()
    schema = known.records.get(type_)
    if schema is None or version not in schema.versions:
        what = f"type {type_}" if schema is None else f"version {version} of {schema.name}"
        raise UndecodableError(
            f"is of {what}, which is not known to {known.known_to}, so whether a snapshot may hold it is unknown: "
            "a newer kraftwatch may know it; nothing was changed"
        )
    return type_, chunk[slice(*record.value)]


def _control_values(chunk: bytes, record: FramedRecord, *, in_snapshot: bool) -> tuple[int, Values]:
    """Returns type and fields of a control record that is completely known.

    Raises:
        UndecodableError: a part of it is unknown, or it would not be written again as it is.
    """
    if record.fault is not None:
        raise UndecodableError(f"cannot be read ({record.fault})")
    key = b"" if record.key is None else chunk[slice(*record.key)]
    if len(key) != _CONTROL_KEY or key[:2] != b"\0\0":
        raise UndecodableError("has a key that no known Kafka writes")
    value = b"" if record.value is None else chunk[slice(*record.value)]
    if len(value) < _VERSION:
        raise UndecodableError("has no value")
    known = record_schemas()
    type_, version = int.from_bytes(key[2:], "big", signed=True), int.from_bytes(value[:_VERSION], "big", signed=True)
    schema = known.control.get(type_)
    if schema is None:
        raise UndecodableError(f"is of type {type_}, which is not known to {known.known_to}")
    if type_ not in (_IN_SNAPSHOT if in_snapshot else _IN_LOG):
        raise UndecodableError(f"is a {schema.name}, which only {'the log' if in_snapshot else 'a snapshot'} has")
    readers = schema_readers(type_, version, control=True, spans=True)
    if not readers:
        raise UndecodableError(f"is a {schema.name} of version {version}, which is not known to {known.known_to}")
    _, values = read_fitting(readers, value)
    if type_ in _STATE and control_record(ControlRecordType(type_), values).value != value:
        raise UndecodableError(f"is a {schema.name} whose bytes would not be written again as they are")
    if type_ == ControlRecordType.KRAFT_VERSION and values["kraft_version"] not in range(_LATEST_KRAFT_VERSION + 1):
        raise UndecodableError(f"sets kraft.version to {values['kraft_version']}, of which only 0 and 1 are known")
    return type_, values


def with_endpoints(voters: Values, endpoints: Mapping[NodeId, Endpoint]) -> Values:
    """Returns a VotersRecord in which these voters have exactly these endpoints; everything else is unchanged."""
    changed = []
    for voter in voters["voters"]:
        endpoint = endpoints.get(NodeId(voter["voter_id"]))
        if endpoint is None:
            changed.append(voter)
        else:
            recorded = {"name": endpoint.listener, "host": endpoint.host, "port": endpoint.port}
            changed.append(voter | {"endpoints": [recorded]})
    return voters | {"voters": changed}


def with_voters(voters: Values, endpoints: Mapping[NodeId, Endpoint]) -> Values:
    """Returns a VotersRecord of these voters alone, with these endpoints."""
    left = [voter for voter in voters["voters"] if NodeId(voter["voter_id"]) in endpoints]
    return with_endpoints(voters | {"voters": left}, endpoints)


def snapshot_batches(log: CompleteLog, voters: Values) -> Iterator[bytes]:
    """Yields the batches of the snapshot `{end offset}-{epoch}.checkpoint`, in order.

    It is not compacted: it holds every record of the log in order. Kafka replays a snapshot record by record, so this
    is valid, and no record is interpreted on the way. Its first batch holds SnapshotHeader, and of a dynamic quorum
    KRaftVersion and Voters records, its last one the SnapshotFooter (Kafka's `RecordsSnapshotWriter`). Offsets count
    within the snapshot; all batches have the snapshot's epoch.
    """
    header: list[tuple[ControlRecordType, Mapping[str, Any]]] = [
        (
            ControlRecordType.SNAPSHOT_HEADER,
            {"version": 0, "last_contained_log_timestamp": log.newest_ms},
        ),
    ]
    if log.kraft_version:
        header += [
            (ControlRecordType.KRAFT_VERSION, {"version": 0, "kraft_version": log.kraft_version}),
            (ControlRecordType.VOTERS, voters),
        ]
    offset = 0

    def control(records: list[tuple[ControlRecordType, Mapping[str, Any]]]) -> bytes:
        return write_batch(
            [control_record(type_, values) for type_, values in records],
            base_offset=offset,
            leader_epoch=log.epoch,
            timestamp_ms=log.newest_ms,
            control=True,
        )

    yield control(header)
    offset += len(header)
    for batch in log.batches:
        yield with_position(batch.content, base_offset=offset, leader_epoch=log.epoch)
        offset += batch.records
    yield control([(ControlRecordType.SNAPSHOT_FOOTER, {"version": 0})])
