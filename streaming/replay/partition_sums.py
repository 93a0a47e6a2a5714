"""PartitionSums: the partitions that a log or snapshot leaves, as sums that can be compared between programs.

Records are applied as Kafka's MetadataDelta does: a change of the leader increments the leader epoch, each change the
partition epoch, a removed topic takes its partitions away, and an aborted transaction has no effect (KIP-868).
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from connectors.event import Event
from connectors.event_columns import EventColumns
from connectors.log_event import LogAdvanced, SnapshotBegan, SnapshotEnded, Undecodable
from connectors.metadata.batches import MOST_BYTES, RecordBatch, scan
from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.observation_event import ObservationEvent
from streaming.replay.block_replay import apply_block
from streaming.replay.log import Log
from streaming.replay.partition_row import EMPTY, NO_LEADER, ODD, RECOVERING, REPLICAS, Rows, list_length
from streaming.replay.partition_table import PartitionTable


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSums:
    """Sums over all partitions."""

    topics: int
    partitions: int
    recovering: int
    """Partitions whose leader was elected uncleanly and is not yet recovered (KIP-704)."""
    with_elr_or_last_known_elr: int
    no_leader: int
    sum_leader_epoch: int
    sum_partition_epoch: int
    sum_leader: int
    """A partition without a leader adds -1."""
    sum_isr_len: int

    def as_json(self) -> dict[str, int]:
        """Returns the sums by name."""
        return asdict(self)


def partition_sums(segment: bytes, *, snapshot: bool) -> PartitionSums:
    """Returns the sums over the partitions that the readable records of a file leave."""
    log = Log()
    for piece in _pieces(segment):
        for item in _events(piece, snapshot=snapshot).items():
            for event in apply_block(log, item) if item.type == "event-block" else (item,):
                _apply(log, event)
    return _sums(log.partitions.table)


def _apply(log: Log, event: Event) -> None:
    if isinstance(event, ObservationEvent):
        return
    match event:
        case LogAdvanced() | SnapshotBegan() | SnapshotEnded() | Undecodable():
            return
        case _:
            log.apply(event)


def _sums(table: PartitionTable) -> PartitionSums:
    """Returns the sums; a partition of which no PartitionRecord was read does not count."""
    used = table.rows[table.used()]
    rows: Rows = used[used["flags"] & ODD == 0]
    shifts = REPLICAS * 4 * np.minimum(rows["leader"], REPLICAS - 1).astype(np.uint64)
    leaders = np.where(rows["leader"] == NO_LEADER, -1, (rows["replicas"] >> shifts & 0xFFFF).astype(np.int64))
    odd = [(held, bool(table.rows["flags"][slot] & RECOVERING)) for slot, held in table.odd.items()]
    known = [(held, recovering) for held, recovering in odd if held.partition_epoch is not None]
    with_elr = (rows["elr"] != EMPTY) | (rows["last_known_elr"] != EMPTY)

    def total(column: "np.ndarray[Any, Any]") -> int:
        return int(column.astype(np.int64).sum())

    return PartitionSums(
        topics=sum(name is not None for _, _, name in table.topics),
        partitions=len(rows) + len(known),
        recovering=total(rows["flags"] & RECOVERING != 0) + sum(recovering for _, recovering in known),
        with_elr_or_last_known_elr=total(with_elr) + sum(bool(held.elr or held.last_known_elr) for held, _ in known),
        no_leader=total(leaders < 0) + sum(held.leader is None for held, _ in known),
        sum_leader_epoch=total(rows["leader_epoch"]) + sum(held.leader_epoch or 0 for held, _ in known),
        sum_partition_epoch=total(rows["partition_epoch"]) + sum(held.partition_epoch or 0 for held, _ in known),
        sum_leader=total(leaders) + sum(-1 if held.leader is None else held.leader for held, _ in known),
        sum_isr_len=total(list_length(rows["isr"])) + sum(len(held.isr) for held, _ in known),
    )


def _events(piece: bytes, *, snapshot: bool) -> EventColumns:
    if snapshot:
        return decode_snapshot_piece(piece, end_offset=0, epoch=0)
    return decode_records(piece, base_offset=None, last_offset=None, leader_epoch=None, high_watermark=None)


def _pieces(segment: bytes) -> Iterator[bytes]:
    """Yields the file in pieces of whole batches, so that not all events are in memory at once."""
    start = 0
    for item in scan(segment):
        if isinstance(item, RecordBatch) and item.end - start >= MOST_BYTES:
            yield segment[start : item.end]
            start = item.end
    yield segment[start:]
