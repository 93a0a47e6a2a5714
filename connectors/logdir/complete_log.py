"""CompleteLog: all metadata that a stopped replica holds, from its newest whole snapshot to the end of its log.

As Kafka itself would read it at its next start: a torn or damaged end of the last segment is ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from connectors.errors import UndecodableError, UsageError
from connectors.logdir.log_dir_files import LogDirFiles
from connectors.logdir.log_dir_reader import DamagedFile, LogContinues, ReadStart, read_log_dir
from connectors.logdir.transaction_filter import CommittedBatch, TransactionFilter
from connectors.metadata.batch_writer import ControlRecordType
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.field_readers import Values, field_reader, read_body
from connectors.metadata.record_framing import control_type, framed_records
from connectors.metadata.record_schemas import record_schemas
from connectors.observations.observation import Observation, ObservationKind
from rules.model.identifiers import Epoch, Offset

_READ: Final = frozenset({ControlRecordType.KRAFT_VERSION, ControlRecordType.VOTERS})


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
    newest_ms: int
    """Timestamp of the newest record."""
    kraft_version: int
    voters: Values
    """The newest VotersRecord, by its schema's field names."""
    damaged: tuple[DamagedFile, ...]
    """What is ignored: the end of the last segment, or damaged snapshots."""

    @property
    def records(self) -> int:
        """The number of metadata records."""
        return sum(batch.records for batch in self.batches)


def read_complete_log(files: LogDirFiles) -> CompleteLog:
    """Reads everything.

    Raises:
        UsageError: the log does not reach back to its beginning or to a whole snapshot, is damaged before its end, has
            an open transaction at its end, or holds no voter set.
    """
    reading = _Reading()
    for item in read_log_dir(files, ""):
        match item:
            case ReadStart():
                reading.start(item)
            case DamagedFile():
                reading.damaged.append(item)
            case Observation():
                reading.add(item)
            case LogContinues():
                raise AssertionError("the log is read to its end")
    last_segment = files.segments[-1].name if files.segments else None
    for one in reading.damaged:
        if one.file.endswith(".log") and one.file != last_segment:
            raise UsageError(
                f"{one.file} is damaged at byte {one.position} ({one.reason}), and later segments follow it"
            )
    return reading.result()


class _Reading:
    """What was read so far."""

    def __init__(self) -> None:
        self.damaged: list[DamagedFile] = []
        self._batches: list[CommittedBatch] = []
        self._transactions = TransactionFilter()
        self._control: dict[int, Values] = {}
        self._snapshot: str | None = None
        self._next = 0
        self._epoch = 0
        self._epoch_ends: dict[Epoch, Offset] = {}
        self._newest_ms = 0

    def start(self, item: ReadStart) -> None:
        if item.snapshot is None and item.offset > 0:
            raise UsageError(
                f"the log begins at offset {item.offset}, and no whole snapshot holds the records before it"
            )
        self._snapshot, self._next = item.snapshot, item.offset

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
                self._add_control(observation.payload, batch)
            else:
                self._batches += self._transactions.add(observation.payload, batch)

    def _follow(self, batch: RecordBatch) -> None:
        if batch.base_offset != self._next:
            raise UsageError(
                f"a batch begins at offset {batch.base_offset}, but the records before it end at {self._next}"
            )
        self._next, self._epoch = batch.last_offset + 1, batch.leader_epoch
        self._epoch_ends[Epoch(batch.leader_epoch)] = Offset(batch.last_offset + 1)
        self._newest_ms = max(self._newest_ms, batch.max_timestamp)

    def _add_control(self, chunk: bytes, batch: RecordBatch) -> None:
        for record in framed_records(chunk, batch):
            try:
                type_ = control_type(chunk, record.key)
                if type_ in _READ and record.value is not None:
                    self._control[type_] = _control_values(type_, chunk[record.value[0] : record.value[1]])
            except UndecodableError as error:
                offset = batch.base_offset + record.delta
                raise UsageError(f"the control record at offset {offset} cannot be read: it {error}") from None

    def result(self) -> CompleteLog:
        if self._transactions.began_at is not None:
            raise UsageError(
                f"a metadata transaction that began at offset {self._transactions.began_at} is still open at the end "
                "of the log: whether it will be committed is unknown, so no snapshot of it can be written"
            )
        version = self._control.get(ControlRecordType.KRAFT_VERSION, {}).get("kraft_version", 0)
        voters = self._control.get(ControlRecordType.VOTERS)
        if not version or voters is None:
            raise UsageError("the log holds no voter set: this is a static quorum")
        return CompleteLog(
            batches=tuple(self._batches),
            end_offset=self._next,
            epoch=self._epoch,
            epoch_ends=self._epoch_ends,
            newest_ms=self._newest_ms,
            kraft_version=int(version),
            voters=voters,
            damaged=tuple(self.damaged),
        )


def _control_values(type_: int, value: bytes) -> dict[str, Any]:
    return read_body(field_reader(record_schemas().control[type_].versions[0]), value)
