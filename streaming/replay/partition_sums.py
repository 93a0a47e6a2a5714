"""The partitions that a log or snapshot leaves, as sums that can be compared between programs.

Records are applied as Kafka's MetadataDelta does: a change of the leader increments the leader epoch, each change the
partition epoch, a removed topic takes its partitions away, and an aborted transaction has no effect (KIP-868). They
are applied up to the first bytes that cannot be read, or the first missing offset: the state after it is not known.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.observations.log_event import Undecodable
from connectors.observations.partition_run import DecodedEvents, PartitionRun
from streaming.replay.log import Log, Record

_PIECE_BYTES: Final = 4 << 20


@dataclass(slots=True, kw_only=True)
class AppliedFile:
    """One file of the metadata log, applied as far as it goes without a gap."""

    log: Log = field(default_factory=Log)
    ends_before: int | None = None
    """The offset at which the state ends, if the file goes on after it: there a batch is missing or cannot be read."""


def apply_file(segment: bytes, *, snapshot: bool) -> AppliedFile:
    """Applies the records of a file in order, up to its first gap."""
    applied = AppliedFile()
    for piece in _pieces(segment, applied):
        for item in _events(piece, snapshot=snapshot):
            if isinstance(item, PartitionRun):
                applied.log.apply_run(item)
            elif isinstance(item, Record):
                applied.log.apply(item)
            elif isinstance(item, Undecodable):
                applied.log.lacks_records()
        applied.log.end_observation()
    return applied


def sums_of(log: Log) -> dict[str, int]:
    """Returns the sums; a partition of which no PartitionRecord was read does not count.

    `recovering` are those whose leader was elected uncleanly and is not yet recovered (KIP-704). A partition without a
    leader adds -1 to `sum_leader`.
    """
    topics = log.partitions.topics
    all_of_them = (held for topic in topics.values() for held in topic.partitions.values())
    known = [held for held in all_of_them if held.partition_epoch is not None]
    return {
        "topics": sum(topic.name is not None for topic in topics.values()),
        "partitions": len(known),
        "recovering": sum(recovery.partition_epoch is not None for recovery in log.partitions.recovering),
        "with_elr_or_last_known_elr": sum(bool(held.elr or held.last_known_elr) for held in known),
        "no_leader": sum(held.leader is None for held in known),
        "sum_leader_epoch": sum(held.leader_epoch or 0 for held in known),
        "sum_partition_epoch": sum(held.partition_epoch or 0 for held in known),
        "sum_leader": sum(-1 if held.leader is None else held.leader for held in known),
        "sum_isr_len": sum(len(held.isr) for held in known),
    }


def _events(piece: bytes, *, snapshot: bool) -> DecodedEvents:
    if snapshot:
        return decode_snapshot_piece(piece, end_offset=0, epoch=0)
    return decode_records(piece, base_offset=None, last_offset=None, leader_epoch=None, high_watermark=None)


def _pieces(segment: bytes, applied: AppliedFile) -> Iterator[bytes]:
    """Yields the file up to its first gap in pieces of whole batches, so that not all events are in memory at once.

    A first batch that does not begin the log is no gap: the file may be a later segment.
    """
    start = end = 0
    next_offset: int | None = None
    for item in scan(segment):
        if not isinstance(item, RecordBatch) or (next_offset is not None and item.base_offset > next_offset):
            applied.ends_before = next_offset or 0
            break
        next_offset, end = item.last_offset + 1, item.end
        if end - start >= _PIECE_BYTES:
            yield segment[start:end]
            start = end
    yield segment[start:end]
