"""Reading: the newest whole snapshot of a log directory and the log behind it, as observations, in order.

The files are read as Kafka's own recovery reads them: a segment ends at its first batch that is not whole, undamaged
and next in order, and nothing behind that counts (`LogSegment.recover`). A living writer's batch that is half there
is such an end. Time is the log's own: an observation is as old as its newest record.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from connectors.log_event import SnapshotBegan
from connectors.logdir.log_dir_files import LogDirFiles, SegmentFile, SnapshotFile
from connectors.metadata.batches import BadBatch, RecordBatch, ScanItem, TornTail, scan
from connectors.metadata.decoder import decode
from connectors.observation import Observation, ObservationKind
from connectors.point_in_time import AtOffset, AtTime, PointInTime

PIECE_BYTES = 1024 * 1024
"""About how much one observation holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedFile:
    """Where a file stops being a log: nothing behind this place counts."""

    file: str
    position: int
    """Bytes of the file that were read."""
    size: int
    """Bytes that are left of it."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStart:
    """Where reading begins: at a snapshot, or at the first segment."""

    snapshot: str | None
    offset: int
    """Of the first record that is read from the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContinues:
    """The log goes on after the moment that was asked for; its next batch."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _CompleteSnapshot:
    """A snapshot that has all it should have."""

    snapshot: SnapshotFile
    content: bytes
    batches: tuple[RecordBatch, ...]
    last_contained_ms: int
    """The log's time of the last record that it stands for: its header says it."""


LogDirItem: TypeAlias = ReadStart | Observation | DamagedFile | LogContinues


def read_log_dir(files: LogDirFiles, cluster: str, upto: PointInTime | None = None) -> Iterator[LogDirItem]:
    """Everything that a log directory tells, in order.

    Args:
        files: of one partition.
        cluster: the name that the observations carry.
        upto: read only what was so then; of a batch that reaches beyond an offset the observation says the offset as
            its last one, and holds the batch whole.

    Returns:
        A Break for each snapshot that is damaged; one Begun; observations of kinds `snapshot` and `records`; last a
        Break where the log ends before its file does, or a Beyond where it goes on after `upto`.
    """
    newest: _CompleteSnapshot | None = None
    for snapshot in reversed(files.snapshots):
        found = _whole(snapshot)
        if isinstance(found, DamagedFile):
            yield found
        elif _reached(found, upto):
            newest = found
            break
    if newest is None:
        start = files.segments[0].base_offset if files.segments else 0
        yield ReadStart(snapshot=None, offset=start)
    else:
        start = newest.snapshot.end_offset
        yield ReadStart(snapshot=newest.snapshot.name, offset=start)
        yield from _pieces(newest, cluster)
    yield from _log(files.segments, start, cluster, upto)


def _bytes(file: SegmentFile | SnapshotFile) -> bytes:
    file.file.seek(0)
    return file.file.read()


def _whole(snapshot: SnapshotFile) -> _CompleteSnapshot | DamagedFile:
    """The snapshot, header to footer."""
    content = _bytes(snapshot)
    batches: list[RecordBatch] = []
    for item in scan(content):
        if not isinstance(item, RecordBatch):
            return _break(snapshot, content, item)
        batches.append(item)
    if len(batches) < 2 or not (batches[0].is_control and batches[-1].is_control):
        return DamagedFile(file=snapshot.name, position=len(content), size=0, reason="the snapshot has no end")
    header = decode(
        content[: batches[0].end],
        kind=ObservationKind.SNAPSHOT,
        base_offset=snapshot.end_offset,
        last_offset=0,
        leader_epoch=snapshot.epoch,
        high_watermark=None,
    )
    times = [one.last_contained_timestamp_ms for one in header.events() if isinstance(one, SnapshotBegan)]
    return _CompleteSnapshot(
        snapshot=snapshot, content=content, batches=tuple(batches), last_contained_ms=max(times, default=0)
    )


def _reached(whole: _CompleteSnapshot, upto: PointInTime | None) -> bool:
    """The snapshot tells nothing that was not so yet at that moment."""
    match upto:
        case None:
            return True
        case AtOffset(offset=offset):
            return whole.snapshot.end_offset - 1 <= offset
        case AtTime(at_ms=at_ms):
            return whole.last_contained_ms <= at_ms


def _pieces(whole: _CompleteSnapshot, cluster: str) -> Iterator[Observation]:
    size = len(whole.content)
    starts = [0]
    for batch in whole.batches:
        if batch.end - starts[-1] >= PIECE_BYTES and batch.end < size:
            starts.append(batch.end)
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], size], strict=True)):
        yield Observation(
            cluster=cluster,
            kind=ObservationKind.SNAPSHOT,
            observed_at_ms=whole.last_contained_ms,
            base_offset=whole.snapshot.end_offset,
            last_offset=number,
            leader_epoch=whole.snapshot.epoch,
            payload=whole.content[start:end],
        )


def _log(
    segments: tuple[SegmentFile, ...], start: int, cluster: str, upto: PointInTime | None
) -> Iterator[Observation | DamagedFile | LogContinues]:
    follows = start
    below = sum(following.base_offset <= start for following in segments[1:])
    for segment in segments[below:]:
        content = _bytes(segment)
        for run in _runs(content, follows, upto):
            match run:
                case RecordBatch() if _beyond(run, upto):
                    yield LogContinues(offset=run.base_offset, timestamp_ms=run.max_timestamp)
                    return
                case RecordBatch() | BadBatch() | TornTail():
                    yield _break(segment, content, run, follows)
                    return
                case _:
                    follows = run[-1].last_offset + 1
                    yield _records(content, run, cluster, upto)


def _runs(content: bytes, follows: int, upto: PointInTime | None) -> Iterator[list[RecordBatch] | ScanItem]:
    """Batches that follow each other, about a piece at a time; last what does not belong to them, if anything."""
    run: list[RecordBatch] = []
    stop: ScanItem | None = None
    for item in scan(content):
        if not isinstance(item, RecordBatch) or item.base_offset > follows or _beyond(item, upto):
            stop = item
            break
        if item.last_offset < follows:
            continue
        run.append(item)
        follows = item.last_offset + 1
        if item.end - run[0].position >= PIECE_BYTES:
            yield run
            run = []
    if run:
        yield run
    # Zeros alone are room that Kafka took in advance (log.preallocate).
    if stop is not None and any(content[stop.position :]):
        yield stop


def _beyond(batch: RecordBatch, upto: PointInTime | None) -> bool:
    match upto:
        case None:
            return False
        case AtOffset(offset=offset):
            return batch.base_offset > offset
        case AtTime(at_ms=at_ms):
            return batch.max_timestamp > at_ms


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


def _break(file: SegmentFile | SnapshotFile, content: bytes, item: ScanItem, follows: int | None = None) -> DamagedFile:
    if isinstance(item, BadBatch):
        reason = item.reason
    elif isinstance(item, TornTail):
        reason = "the last batch is torn"
    else:
        reason = f"offset {item.base_offset} where {follows} follows"
    return DamagedFile(file=file.name, position=item.position, size=len(content) - item.position, reason=reason)
