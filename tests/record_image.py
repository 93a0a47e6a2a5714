"""RecordImage: a simple reference for the state after the records of a log. It shares no code with the replay.

It holds the newest record of each entity, with all later changes applied: what a snapshot of the log contains.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple, TypeVar

from connectors.observations.log_event import (
    BrokerChanged,
    BrokerMinInSyncReplicasSet,
    BrokerUnregistered,
    ControllerUnregistered,
    ElrCleared,
    FeatureLevelSet,
    GrantSet,
    KRaftVersionSet,
    LeaderChanged,
    LogEvent,
    MinInSyncReplicasSet,
    PartitionChanged,
    PartitionSet,
    SnapshotBegan,
    SnapshotEnded,
    ThrottleSet,
    TopicCreated,
    TopicRemoved,
    TransactionBegan,
    TransactionEnded,
    VotersReplaced,
    ZkMigrationChanged,
)
from rules.model.identifiers import Epoch, Millis, Offset, ReplicaKey
from rules.model.membership import BrokerRegistration, ControllerRegistration, RecordPosition

Position = tuple[str, int]
"""A partition: its topic's id and its number."""
ChangedT = TypeVar("ChangedT", BrokerRegistration, PartitionSet)


class RecoveryBeginning(NamedTuple):
    """The offset of the record that made a partition RECOVERING; its in-sync replicas before that."""

    since: int = -1
    before: frozenset[int] = frozenset()
    """Also those before any further unclean election."""


@dataclass(slots=True)
class OpenTransaction:
    """An open transaction: its records do not count yet."""

    offset: int
    epoch: int
    held: list[LogEvent] = field(default_factory=list)


@dataclass(slots=True)
class RecordImage:
    """`end` is the next offset to apply."""

    end: int = 0
    quorum: dict[type, KRaftVersionSet | VotersReplaced] = field(default_factory=dict)
    levels: dict[str, FeatureLevelSet] = field(default_factory=dict)
    controllers: dict[int, ControllerRegistration] = field(default_factory=dict)
    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    topics: dict[str, TopicCreated] = field(default_factory=dict)
    partitions: dict[Position, PartitionSet] = field(default_factory=dict)
    configs: dict[str | int | None, MinInSyncReplicasSet | BrokerMinInSyncReplicasSet] = field(default_factory=dict)
    throttles: dict[tuple[str | None, int | None, str], ThrottleSet] = field(default_factory=dict)
    grants: dict[str, GrantSet] = field(default_factory=dict)
    recoveries: dict[Position, RecoveryBeginning] = field(default_factory=dict)
    zk_migration: dict[type, ZkMigrationChanged] = field(default_factory=dict)
    transaction: OpenTransaction | None = None

    @property
    def kraft_version(self) -> int:
        """The newest kraft.version; 0 before its first record."""
        record = self.quorum.get(KRaftVersionSet)
        return record.version if isinstance(record, KRaftVersionSet) else 0

    @property
    def voters(self) -> frozenset[ReplicaKey] | None:
        """The newest voters; None before the first VotersRecord."""
        record = self.quorum.get(VotersReplaced)
        return frozenset(each.key for each in record.voters) if isinstance(record, VotersReplaced) else None

    @property
    def recovering(self) -> dict[Position, PartitionSet]:
        """The partitions that are RECOVERING."""
        return {position: one for position, one in self.partitions.items() if one.recovering}

    @property
    def topic_names(self) -> list[str]:
        """The names of all topics."""
        return [topic.name for topic in self.topics.values()]

    def records(self) -> list[LogEvent]:
        """Returns the newest record of each entity: what a snapshot contains."""
        kinds = (
            *(self.quorum, self.levels, self.zk_migration),
            *(self.controllers, self.brokers, self.topics, self.partitions, self.configs, self.throttles, self.grants),
        )
        return [record for kind in kinds for record in kind.values()]

    def reset(self) -> None:
        """Forgets all records, in place."""
        empty = RecordImage()
        for each in fields(empty):
            setattr(self, each.name, getattr(empty, each.name))

    def with_transaction_applied(self) -> "RecordImage":
        """Returns the state as if the open transaction ended now: the active controller's own view."""
        if self.transaction is None:
            return self
        other = copy.copy(self)
        for each in fields(self):
            if isinstance(kept := getattr(self, each.name), dict):
                setattr(other, each.name, dict(kept))
        for event in self.transaction.held:
            other.apply_effective(event)
        return other

    def apply(self, event: LogEvent | None) -> None:
        """Applies the record at `end`; None is a NoOp."""
        self.end += 1
        match event:
            case None | LeaderChanged():
                return
            case KRaftVersionSet() | VotersReplaced():
                self.quorum[type(event)] = event
            case TransactionBegan():
                self.transaction = OpenTransaction(event.at.offset, event.at.leader_epoch)
            case TransactionEnded():
                held, self.transaction = self.transaction, None
                for record in held.held if held and not event.aborted else ():
                    self.apply_effective(record)
            case _ if self.transaction is not None:
                self.transaction.held.append(event)
            case _:
                self.apply_effective(event)

    def apply_effective(self, event: LogEvent) -> None:
        """Applies a record that is not held in a transaction."""
        match event:
            case ZkMigrationChanged():
                self.zk_migration[type(event)] = event
            case FeatureLevelSet():
                self.levels[event.name] = event
            case ControllerRegistration():
                self.controllers[event.id] = event
            case ControllerUnregistered():
                self.controllers.pop(event.id, None)
            case BrokerRegistration():
                self.brokers[event.id] = event
            case BrokerChanged():
                names = ("fenced", "in_controlled_shutdown", "log_dirs")
                self.brokers[event.id] = _changed(self.brokers[event.id], event, *names)
            case BrokerUnregistered():
                del self.brokers[event.id]
            case TopicCreated():
                self.topics[event.topic_id] = event
            case TopicRemoved():
                self._remove_topic(event)
            case _:
                self._apply_to_partitions(event)

    def _set(self, event: ThrottleSet | GrantSet) -> None:
        if isinstance(event, GrantSet):
            self.grants.pop(event.grant, None)
            self.grants |= {event.grant: event} if event.is_set else {}
            return
        self.throttles.pop((event.topic, event.broker, event.setting), None)
        if event.is_set:
            self.throttles[event.topic, event.broker, event.setting] = event

    def _set_min_isr(self, event: MinInSyncReplicasSet | BrokerMinInSyncReplicasSet) -> None:
        key = event.topic if isinstance(event, MinInSyncReplicasSet) else event.broker
        self.configs.pop(key, None)
        if event.value is not None:
            self.configs[key] = event

    def _remove_topic(self, event: TopicRemoved) -> None:
        name = self.topics.pop(event.topic_id).name
        self.configs.pop(name, None)
        self.throttles = {key: one for key, one in self.throttles.items() if key[0] != name}
        self.partitions = {key: one for key, one in self.partitions.items() if key[0] != event.topic_id}

    def _apply_to_partitions(self, event: LogEvent) -> None:
        match event:
            case ElrCleared():
                for position, one in self.partitions.items():
                    named = event.topic in (None, self.topics[position[0]].name)
                    if named and (one.elr or one.last_known_elr):
                        self.partitions[position] = replace(_next_epoch(one), elr=(), last_known_elr=())
            case ThrottleSet() | GrantSet():
                self._set(event)
            case MinInSyncReplicasSet() | BrokerMinInSyncReplicasSet():
                self._set_min_isr(event)
            case PartitionSet():
                self.partitions[event.topic_id, event.partition] = event
                self.recoveries.pop((event.topic_id, event.partition), None)
            case PartitionChanged():
                position = (event.topic_id, event.partition)
                was = self.partitions.get(position)
                if was is None:
                    # Its creation was lost: the voters' logs were restored from older copies.
                    return
                names = ("replicas", "isr", "elr", "last_known_elr", "recovering", "directories", "adding", "removing")
                now = _changed(_next_epoch(was), event, *names)
                if event.leader_set:
                    now = replace(now, leader=event.leader, partition_leader_epoch=was.partition_leader_epoch + 1)
                self.partitions[position] = now
                self._recover(position, was, now, event.at.offset)
            case _:
                pass

    def _recover(self, position: Position, was: PartitionSet, now: PartitionSet, offset: int) -> None:
        """Stores how a recovery began, and which replicas a further unclean election passed over."""
        if now.recovering and not was.recovering:
            self.recoveries[position] = RecoveryBeginning(offset, frozenset(was.isr))
        elif now.recovering and now.isr and (held := {*was.isr, *was.elr} or {*was.last_known_elr}):
            began = self.recoveries.get(position, RecoveryBeginning())
            if not held & {*now.isr}:
                self.recoveries[position] = began._replace(before=began.before | frozenset(was.isr))


def snapshot(log: Iterable[LogEvent], *, end_offset: int, epoch: int, timestamp_ms: int) -> list[LogEvent]:
    """Returns header, records and footer of a log's snapshot, with offsets within the snapshot file."""

    def at(offset: int) -> RecordPosition:
        return RecordPosition(
            offset=Offset(offset), leader_epoch=Epoch(epoch), timestamp_ms=Millis(timestamp_ms), snapshot=True
        )

    image = RecordImage()
    for record in log:
        image.apply(record)
    where, in_epoch = Offset(end_offset), Epoch(epoch)
    began = SnapshotBegan(at=at(0), end_offset=where, epoch=in_epoch, last_contained_timestamp_ms=Millis(timestamp_ms))
    inside = [replace(record, at=at(offset)) for offset, record in enumerate(image.records(), 1)]  # type: ignore[arg-type]
    return [began, *inside, SnapshotEnded(at=at(len(inside) + 1), end_offset=where, epoch=in_epoch)]


def _changed(record: ChangedT, change: BrokerChanged | PartitionChanged, *names: str) -> ChangedT:
    """Returns a record with these fields of a change; None is an unchanged one."""
    values = {name: getattr(change, name) for name in names}
    return replace(record, **{name: value for name, value in values.items() if value is not None})


def _next_epoch(one: PartitionSet) -> PartitionSet:
    return one if one.partition_epoch is None else replace(one, partition_epoch=one.partition_epoch + 1)
