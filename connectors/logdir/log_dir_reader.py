"""Reads the newest complete snapshot of a log directory and the log after it, as observations, in order.

The files are read as Kafka's own recovery reads them: a segment ends before its first batch that is incomplete or
damaged, and everything after that is ignored (`LogSegment.recover`). A batch that a running Kafka has half written also
ends the segment. So does an undamaged batch that no Kafka writes, such as one that is compressed or not next in order:
Kafka may read it, so this is reported as a difference (`DamagedFile.undamaged`). Time is the log's own: an observation
is as old as its newest record.

`VoterSetReader` reads every voter set that the directory still holds. Only control batches are decoded, so this costs
one pass over the files, and later one over what was appended. The offset of a snapshot's voter set is the last offset
that the snapshot contains, as in Kafka's KRaftControlRecordStateMachine.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TypeAlias

from connectors.logdir.log_dir_files import LogDirFiles, LogFile, SegmentFile, SnapshotFile
from connectors.metadata.batches import MAGIC, MAGIC_AT, BadBatch, RecordBatch, ScanItem, TornTail, scan, write_crc
from connectors.metadata.damaged_bytes import SoundBatchSearch
from connectors.metadata.decoder import decode_snapshot_piece
from connectors.metadata.value_limits import LARGEST_OFFSET
from connectors.observations.log_event import SnapshotBegan, VotersReplaced
from connectors.observations.observation import Observation, ObservationKind
from connectors.observations.point_in_time import AtOffset, AtTime, PointInTime
from rules.model.identifiers import Epoch, Offset
from rules.model.membership import VoterSet

_LARGEST_EPOCH = 2**31 - 1
PIECE_BYTES = 1024 * 1024
"""The approximate size of one observation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedFile:
    """A file that is not read to its end: everything after `position` is ignored."""

    file: str
    """File name."""
    position: int
    """Bytes of the file that were read."""
    size: int
    """Bytes of the file that were ignored."""
    reason: str
    """What is wrong, as text."""
    undamaged: bool = False
    """The bytes at `position` are a whole batch: Kafka may read there what is ignored here."""
    resumes_at: int | None = None
    """The offset of the next sound batch, if the log goes on after damaged bytes: it does not at a torn end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStart:
    """Where reading begins: at a snapshot, or at the first segment."""

    snapshot: str | None
    offset: int
    """Offset of the first record that is read from the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContinues:
    """The log continues after the requested point in time: offset and time of its next batch."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _CompleteSnapshot:
    """A snapshot from its header to its footer."""

    snapshot: SnapshotFile
    content: bytes
    batches: tuple[RecordBatch, ...]
    last_contained_ms: int
    """The log's time of the last record that the snapshot contains, from its header."""


LogDirItem: TypeAlias = ReadStart | Observation | DamagedFile | LogContinues


def read_log_dir(files: LogDirFiles, cluster: str, upto: PointInTime | None = None) -> Iterator[LogDirItem]:
    """Reads a log directory, in order.

    Args:
        cluster: the name that the observations carry.
        upto: read only up to this point in time. If a batch extends beyond the requested offset, the observation holds
            the whole batch, and its last offset is the requested one.

    Yields:
        A DamagedFile for each damaged snapshot; one ReadStart; observations of kinds `snapshot` and `records`; last a
        DamagedFile if the log ends before its file does, or a LogContinues if it continues after `upto`.
    """
    newest: _CompleteSnapshot | None = None
    for snapshot in reversed(files.snapshots):
        found = _read_snapshot(snapshot)
        if isinstance(found, DamagedFile):
            yield found
        elif not _is_after(upto, snapshot.end_offset - 1, found.last_contained_ms):
            newest = found
            break
    if newest is None:
        start, epoch = files.segments[0].base_offset if files.segments else 0, 0
        yield ReadStart(snapshot=None, offset=start)
    else:
        start, epoch = newest.snapshot.end_offset, newest.snapshot.epoch
        yield ReadStart(snapshot=newest.snapshot.name, offset=start)
        yield from _pieces(newest, cluster)
    yield from _log(files.segments, start, Epoch(epoch), cluster, upto)


def _read_snapshot(snapshot: SnapshotFile) -> _CompleteSnapshot | DamagedFile:
    """Reads a snapshot from its header to its footer."""
    content = snapshot.read()
    batches: list[RecordBatch] = []
    for item in scan(content):
        if not isinstance(item, RecordBatch):
            return _damage(snapshot, content, item, _bad(item))
        batches.append(item)
    if len(batches) < 2 or not (batches[0].is_control and batches[-1].is_control):
        return DamagedFile(file=snapshot.name, position=len(content), size=0, reason="the snapshot has no footer")
    header = decode_snapshot_piece(content[: batches[0].end], end_offset=snapshot.end_offset, epoch=snapshot.epoch)
    times = [event.last_contained_timestamp_ms for event in header.events() if isinstance(event, SnapshotBegan)]
    return _CompleteSnapshot(
        snapshot=snapshot, content=content, batches=tuple(batches), last_contained_ms=max(times, default=0)
    )


def _is_after(upto: PointInTime | None, offset: int, time_ms: int) -> bool:
    """Whether a record of this offset and time is after the requested point in time."""
    match upto:
        case None:
            return False
        case AtOffset():
            return offset > upto.offset
        case AtTime():
            return time_ms > upto.at_ms


def _pieces(complete: _CompleteSnapshot, cluster: str) -> Iterator[Observation]:
    size = len(complete.content)
    starts = [0]
    for batch in complete.batches:
        if batch.end - starts[-1] >= PIECE_BYTES and batch.end < size:
            starts.append(batch.end)
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], size], strict=True)):
        yield Observation(
            cluster=cluster,
            kind=ObservationKind.SNAPSHOT,
            observed_at_ms=complete.last_contained_ms,
            base_offset=complete.snapshot.end_offset,
            last_offset=number,
            leader_epoch=complete.snapshot.epoch,
            payload=complete.content[start:end],
        )


def _log(
    segments: tuple[SegmentFile, ...], start: int, epoch: Epoch, cluster: str, upto: PointInTime | None
) -> Iterator[Observation | DamagedFile | LogContinues]:
    """Yields consecutive batches, about PIECE_BYTES at a time; last what ends the log before its end, if anything.

    Args:
        epoch: of the snapshot that ends at `start`. Kafka drops a log that has an earlier epoch there
            (`KafkaRaftLog.truncateToLatestSnapshot`).
    """
    next_offset, last_epoch = start, epoch
    below = sum(later.base_offset <= start for later in segments[1:])
    for number, segment in enumerate(segments[below:], below + 1):
        content = segment.read()
        run: list[RecordBatch] = []
        end: LogContinues | DamagedFile | None = None
        for item in scan(content):
            if isinstance(item, RecordBatch) and _is_after(upto, item.base_offset, item.max_timestamp):
                end = LogContinues(offset=item.base_offset, timestamp_ms=item.max_timestamp)
                break
            reason = _end_of_log(item, next_offset, epoch)
            if reason is not None:
                # Zeros alone are space that Kafka allocated in advance (log.preallocate).
                if any(content[item.position :]):
                    later = next((file.base_offset for file in segments[number:] if file.read()), None)
                    resumes_at = _resumes_at(content, item, next_offset, last_epoch, later)
                    end = replace(_damage(segment, content, item, reason), resumes_at=resumes_at)
                break
            assert isinstance(item, RecordBatch)
            if item.last_offset < next_offset:
                continue
            run.append(item)
            next_offset, last_epoch = item.last_offset + 1, Epoch(item.leader_epoch)
            if item.end - run[0].position >= PIECE_BYTES:
                yield _records(content, run, cluster, upto)
                run = []
        if run:
            yield _records(content, run, cluster, upto)
        if end is not None:
            yield end
            return


def _records(content: bytes, run: list[RecordBatch], cluster: str, upto: PointInTime | None) -> Observation:
    last = run[-1].last_offset
    return Observation(
        cluster=cluster,
        kind=ObservationKind.RECORDS,
        observed_at_ms=max(batch.max_timestamp for batch in run),
        base_offset=run[0].base_offset,
        last_offset=min(last, upto.offset) if isinstance(upto, AtOffset) else last,
        leader_epoch=run[-1].leader_epoch,
        payload=content[run[0].position : run[-1].end],
    )


def _end_of_log(item: ScanItem, expected: int, epoch: Epoch) -> str | None:
    """Returns why the log ends before this item; None if it is a batch of the log."""
    if not isinstance(item, RecordBatch):
        return _bad(item)
    if item.base_offset > expected:
        return f"base offset {item.base_offset}, expected {expected}"
    if item.last_offset >= expected and item.leader_epoch < epoch:
        return f"epoch {item.leader_epoch} after a snapshot of epoch {epoch}: Kafka drops this log when it starts"
    return None


def _bad(item: BadBatch | TornTail) -> str:
    return item.reason if isinstance(item, BadBatch) else "the last batch is torn"


def _damage(file: LogFile, content: bytes, item: ScanItem, reason: str) -> DamagedFile:
    size = len(content) - item.position
    return DamagedFile(
        file=file.name, position=item.position, size=size, reason=reason, undamaged=_is_undamaged(content, item)
    )


def _resumes_at(content: bytes, item: ScanItem, expected: int, epoch: Epoch, later: int | None) -> int | None:
    """Returns where the log goes on after damaged bytes; None if it does not, or if an unknown Kafka wrote this batch.

    Args:
        epoch: of the batch before.
        later: where the next segment begins, if one does.
    """
    if item.base_offset == expected and _is_undamaged(content, item):
        return None
    epochs = range(epoch, _LARGEST_EPOCH + 1)
    found = SoundBatchSearch(content).next(
        item.position, expected=expected, high_watermark=LARGEST_OFFSET, epochs=epochs
    )
    return later if found is None else found.base_offset


def _is_undamaged(content: bytes, item: ScanItem) -> bool:
    """Whether Kafka's recovery keeps these bytes: it checks the CRC of a batch of any later magic as of magic 2."""
    match item:
        case RecordBatch():
            return True
        case BadBatch(header=None) if item.base_offset is not None and content[item.position + MAGIC_AT] > MAGIC:
            batch = bytearray(content[item.position : item.position + item.size])
            write_crc(batch)
            return batch == content[item.position : item.position + item.size]
        case BadBatch():
            return item.header is not None
        case TornTail():
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterSetInFile:
    """One voter set and the file that holds it."""

    voters: VoterSet
    """The voter set."""
    file: str
    """The segment or snapshot that holds it."""
    in_snapshot: bool
    """Whether that file is a snapshot."""


class VoterSetReader:
    """Reads the voter sets of one log directory, again and again: of each file only what was appended since."""

    def __init__(self) -> None:
        """Has read nothing yet."""
        self._read: dict[str, _ReadFile] = {}

    def read(self, files: LogDirFiles) -> tuple[VoterSetInFile, ...]:
        """Returns the voter sets in order of offsets; at the same offset the log's comes before a snapshot's."""
        self._read = {
            file.name: _continued(file, self._read.get(file.name)) for file in (*files.snapshots, *files.segments)
        }
        found = (one for each in self._read.values() for one in each.sets)
        return tuple(sorted(found, key=lambda one: (one.voters.offset, one.in_snapshot)))


def voter_sets_in_files(files: LogDirFiles) -> tuple[VoterSetInFile, ...]:
    """Returns the voter sets in order of offsets; at the same offset the log's comes before a snapshot's."""
    return VoterSetReader().read(files)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadFile:
    """What was read of a file."""

    newest: RecordBatch | None = None
    """The last batch, with its position in the file."""
    sets: tuple[VoterSetInFile, ...] = ()


def _continued(file: LogFile, before: _ReadFile | None) -> _ReadFile:
    """Returns what a file holds, of which the part up to the newest batch `before` was read."""
    known = None if before is None else before.newest
    start = 0 if known is None else known.position
    content = file.read(start)
    batches = takewhile(lambda item: isinstance(item, RecordBatch), scan(content))
    if known is not None and next(batches, None) != known._replace(position=0):
        # Kafka has truncated the log since.
        return _continued(file, None)
    sets = [] if before is None else [*before.sets]
    for batch in batches:
        assert isinstance(batch, RecordBatch)
        sets += _voter_sets(file, content, batch)
        known = batch._replace(position=start + batch.position)
    return _ReadFile(newest=known, sets=tuple(sets))


def _voter_sets(file: LogFile, content: bytes, batch: RecordBatch) -> Iterator[VoterSetInFile]:
    if not batch.is_control:
        return
    for event in decode_snapshot_piece(content[batch.position : batch.end], end_offset=0, epoch=0).events():
        if not isinstance(event, VotersReplaced):
            continue
        at = event.at
        voters = VoterSet(
            voters=event.voters, offset=at.offset, leader_epoch=at.leader_epoch, timestamp_ms=at.timestamp_ms
        )
        if isinstance(file, SnapshotFile):
            # Each node writes its own snapshots, so their timestamps do not tell when the voters changed.
            last = Offset(file.end_offset - 1)
            voters = replace(voters, offset=last, leader_epoch=file.epoch, timestamp_ms=None)
        yield VoterSetInFile(voters=voters, file=file.name, in_snapshot=isinstance(file, SnapshotFile))
