"""Compaction: builds the records of a snapshot from the records of a log."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from connectors.observations.log_event import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ControllerRegistered,
    ElrCleared,
    FeatureLevelSet,
    KRaftVersionSet,
    LeaderChanged,
    LogEvent,
    PartitionChanged,
    PartitionSet,
    RecordPosition,
    SnapshotBegan,
    SnapshotEnded,
    TopicCreated,
    TopicRemoved,
    TransactionBegan,
    TransactionEnded,
    VotersReplaced,
)
from rules.model.identifiers import Epoch, Millis, Offset


def snapshot(log: Iterable[LogEvent], *, end_offset: int, epoch: int, timestamp_ms: int) -> list[LogEvent]:
    """Returns header, compacted records and footer, with offsets within the snapshot file."""

    def at(offset: int) -> RecordPosition:
        return RecordPosition(
            offset=Offset(offset), leader_epoch=Epoch(epoch), timestamp_ms=Millis(timestamp_ms), snapshot=True
        )

    compacted = _compacted(log)
    where, in_epoch = Offset(end_offset), Epoch(epoch)
    began = SnapshotBegan(at=at(0), end_offset=where, epoch=in_epoch, last_contained_timestamp_ms=Millis(timestamp_ms))
    inside = [replace(record, at=at(offset)) for offset, record in enumerate(compacted, 1)]
    return [began, *inside, SnapshotEnded(at=at(len(inside) + 1), end_offset=where, epoch=in_epoch)]


CompactedRecord = (
    KRaftVersionSet
    | VotersReplaced
    | FeatureLevelSet
    | ControllerRegistered
    | BrokerRegistered
    | TopicCreated
    | PartitionSet
)


def effective_records(log: Iterable[LogEvent]) -> Iterator[LogEvent]:
    """Yields the records that take effect: those of a transaction at its end, none if it is aborted."""
    held: list[LogEvent] | None = None
    for record in log:
        match record:
            case TransactionBegan():
                held = []
            case TransactionEnded():
                yield from () if record.aborted or held is None else held
                held = None
            case LeaderChanged() | KRaftVersionSet() | VotersReplaced():
                yield record
            case _ if held is None:
                yield record
            case _:
                held.append(record)


def _compacted(log: Iterable[LogEvent]) -> list[CompactedRecord]:
    """Returns the newest record of each entity with all later changes applied."""
    kept: dict[tuple[object, ...], CompactedRecord] = {}
    for record in effective_records(log):
        match record:
            case KRaftVersionSet() | VotersReplaced():
                kept[(type(record),)] = record
            case FeatureLevelSet():
                kept[type(record), record.name] = record
            case ControllerRegistered() | BrokerRegistered():
                kept[type(record), record.id] = record
            case TopicCreated():
                kept[type(record), record.topic_id] = record
            case PartitionSet():
                kept[PartitionSet, record.topic_id, record.partition] = record
            case _:
                _change(kept, record)
    return list(kept.values())


def _change(kept: dict[tuple[object, ...], CompactedRecord], record: LogEvent) -> None:
    match record:
        case BrokerUnregistered():
            kept.pop((BrokerRegistered, record.id), None)
        case TopicRemoved():
            for place in [place for place in kept if record.topic_id in place]:
                del kept[place]
        case ElrCleared():
            _clear(kept, record)
        case BrokerChanged() | PartitionChanged():
            _apply_change(kept, record)
        case _:
            pass


def _clear(kept: dict[tuple[object, ...], CompactedRecord], cleared: ElrCleared) -> None:
    of = {one.topic_id for one in kept.values() if isinstance(one, TopicCreated) and cleared.topic in (None, one.name)}
    for place, one in kept.items():
        if isinstance(one, PartitionSet) and one.topic_id in of and (one.elr or one.last_known_elr):
            epoch = None if one.partition_epoch is None else one.partition_epoch + 1
            kept[place] = replace(one, elr=(), last_known_elr=(), partition_epoch=epoch)


def _apply_change(kept: dict[tuple[object, ...], CompactedRecord], change: BrokerChanged | PartitionChanged) -> None:
    if isinstance(change, BrokerChanged):
        broker = kept[BrokerRegistered, change.id]
        assert isinstance(broker, BrokerRegistered)
        left = change.in_controlled_shutdown
        kept[BrokerRegistered, change.id] = replace(
            broker,
            fenced=broker.fenced if change.fenced is None else change.fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown if left is None else left,
        )
        return
    where = (PartitionSet, change.topic_id, change.partition)
    partition = kept[where]
    assert isinstance(partition, PartitionSet)
    kept[where] = replace(
        partition,
        replicas=partition.replicas if change.replicas is None else change.replicas,
        isr=partition.isr if change.isr is None else change.isr,
        elr=partition.elr if change.elr is None else change.elr,
        last_known_elr=partition.last_known_elr if change.last_known_elr is None else change.last_known_elr,
        leader=change.leader if change.leader_set else partition.leader,
        partition_leader_epoch=partition.partition_leader_epoch + change.leader_set,
        partition_epoch=None if partition.partition_epoch is None else partition.partition_epoch + 1,
        recovering=partition.recovering if change.recovering is None else change.recovering,
    )
