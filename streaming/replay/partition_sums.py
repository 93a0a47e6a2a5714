"""The partitions that a log or snapshot leaves, as sums that can be compared between programs.

Records are applied as Kafka's MetadataDelta does: a change of the leader increments the leader epoch, each change the
partition epoch, a removed topic takes its partitions away, and an aborted transaction has no effect (KIP-868).
"""

from collections.abc import Iterator
from typing import Final

from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.observations.partition_run import DecodedEvents, PartitionRun
from streaming.replay.log import Log, Record

_PIECE_BYTES: Final = 4 << 20


def partition_sums(segment: bytes, *, snapshot: bool) -> dict[str, int]:
    """Returns the sums over the partitions that the readable records of a file leave, by name."""
    log = Log()
    for piece in _pieces(segment):
        for item in _events(piece, snapshot=snapshot):
            if isinstance(item, PartitionRun):
                log.apply_run(item)
            elif isinstance(item, Record):
                log.apply(item)
    return sums_of(log)


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


def _pieces(segment: bytes) -> Iterator[bytes]:
    """Yields the file in pieces of whole batches, so that not all events are in memory at once."""
    start = 0
    for item in scan(segment):
        if isinstance(item, RecordBatch) and item.end - start >= _PIECE_BYTES:
            yield segment[start : item.end]
            start = item.end
    yield segment[start:]
