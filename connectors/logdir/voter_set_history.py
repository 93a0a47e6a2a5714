"""Reads every voter set that a log directory still holds: each VotersRecord of its log, and the one of each snapshot.

Only control batches are decoded, so this costs one pass over the files. The offset of a snapshot's voter set is the
last offset that the snapshot contains, as in Kafka's KRaftControlRecordStateMachine.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from connectors.logdir.log_dir_files import LogDirFiles, SegmentFile, SnapshotFile
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.observations.log_event import VotersReplaced
from rules.model.identifiers import Epoch, Offset
from rules.model.voter_set import VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterSetInFile:
    """One voter set and the file that holds it."""

    voters: VoterSet
    file: str
    in_snapshot: bool


def voter_sets_in_files(files: LogDirFiles) -> tuple[VoterSetInFile, ...]:
    """Returns the voter sets in order of offsets; at the same offset the log's comes before a snapshot's."""
    found = [*_of_snapshots(files.snapshots), *_of_segments(files.segments)]
    return tuple(sorted(found, key=lambda one: (one.voters.offset, one.in_snapshot)))


def _of_snapshots(snapshots: tuple[SnapshotFile, ...]) -> Iterator[VoterSetInFile]:
    for snapshot in snapshots:
        for event, _ in _in_control_batches(snapshot):
            # Each node writes its own snapshots, so their timestamps do not tell when the voters changed.
            last = Offset(snapshot.end_offset - 1)
            voters = VoterSet(voters=event.voters, offset=last, leader_epoch=snapshot.epoch, timestamp_ms=None)
            yield VoterSetInFile(voters=voters, file=snapshot.name, in_snapshot=True)


def _of_segments(segments: tuple[SegmentFile, ...]) -> Iterator[VoterSetInFile]:
    for segment in segments:
        for event, epoch in _in_control_batches(segment):
            at = event.at
            voters = VoterSet(
                voters=event.voters, offset=at.offset, leader_epoch=Epoch(epoch), timestamp_ms=at.timestamp_ms
            )
            yield VoterSetInFile(voters=voters, file=segment.name, in_snapshot=False)


def _in_control_batches(file: SegmentFile | SnapshotFile) -> Iterator[tuple[VotersReplaced, int]]:
    """Yields the voter sets of one file, each with the epoch of its batch."""
    file.file.seek(0)
    content = file.file.read()
    for batch in scan(content):
        if not isinstance(batch, RecordBatch):
            return
        if not batch.is_control:
            continue
        payload = content[batch.position : batch.end]
        if isinstance(file, SnapshotFile):
            table = decode_snapshot_piece(payload, end_offset=file.end_offset, epoch=file.epoch)
        else:
            table = decode_records(
                payload,
                base_offset=batch.base_offset,
                last_offset=batch.last_offset,
                leader_epoch=batch.leader_epoch,
                high_watermark=None,
            )
        for event in table.events():
            if isinstance(event, VotersReplaced):
                yield event, batch.leader_epoch
