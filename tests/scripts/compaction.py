"""Compaction: the records that a snapshot of a log holds, from the log's own records."""

from collections.abc import Iterable
from dataclasses import replace

from connectors.event import (
    At,
    BrokerChanged,
    BrokerRegistered,
    ControllerRegistered,
    FeatureLevelSet,
    KRaftVersionSet,
    LogEvent,
    PartitionChanged,
    PartitionSet,
    SnapshotBegan,
    SnapshotEnded,
    TopicCreated,
    VotersSet,
)
from rules.quorum import Epoch, Millis, Offset


def snapshot(log: Iterable[LogEvent], *, end_offset: int, epoch: int, timestamp_ms: int) -> list[LogEvent]:
    """Header, what the log came to, footer: at offsets of the snapshot's own file."""

    def at(offset: int) -> At:
        return At(offset=Offset(offset), leader_epoch=Epoch(epoch), timestamp_ms=Millis(timestamp_ms), snapshot=True)

    came_to = _came_to(log)
    where, in_epoch = Offset(end_offset), Epoch(epoch)
    began = SnapshotBegan(at=at(0), end_offset=where, epoch=in_epoch, last_contained_timestamp_ms=Millis(timestamp_ms))
    inside = [replace(record, at=at(offset)) for offset, record in enumerate(came_to, 1)]
    return [began, *inside, SnapshotEnded(at=at(len(inside) + 1), end_offset=where, epoch=in_epoch)]


Kept = (
    KRaftVersionSet
    | VotersSet
    | FeatureLevelSet
    | ControllerRegistered
    | BrokerRegistered
    | TopicCreated
    | PartitionSet
)


def _came_to(log: Iterable[LogEvent]) -> list[Kept]:
    """The newest record of each thing, with the changes since then laid over it."""
    kept: dict[tuple[object, ...], Kept] = {}
    for record in log:
        match record:
            case KRaftVersionSet() | VotersSet():
                kept[(type(record),)] = record
            case FeatureLevelSet():
                kept[type(record), record.name] = record
            case ControllerRegistered() | BrokerRegistered():
                kept[type(record), record.id] = record
            case TopicCreated():
                kept[type(record), record.topic_id] = record
            case PartitionSet():
                kept[PartitionSet, record.topic_id, record.partition] = record
            case BrokerChanged() | PartitionChanged():
                _lay_over(kept, record)
            case _:
                pass
    return list(kept.values())


def _lay_over(kept: dict[tuple[object, ...], Kept], change: BrokerChanged | PartitionChanged) -> None:
    if isinstance(change, BrokerChanged):
        broker = kept[BrokerRegistered, change.id]
        assert isinstance(broker, BrokerRegistered)
        kept[BrokerRegistered, change.id] = replace(
            broker, fenced=broker.fenced if change.fenced is None else change.fenced
        )
        return
    where = (PartitionSet, change.topic_id, change.partition)
    partition = kept[where]
    assert isinstance(partition, PartitionSet)
    kept[where] = replace(
        partition,
        isr=partition.isr if change.isr is None else change.isr,
        leader=change.leader if change.leader_set else partition.leader,
        recovering=partition.recovering if change.recovering is None else change.recovering,
    )
