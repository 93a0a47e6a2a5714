"""A Log being replayed: its image, its partitions, and its open transaction (KIP-868)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, InstanceOf

from connectors.metadata.value_limits import (
    MOST_BROKERS,
    MOST_CONTROLLERS,
    MOST_FEATURES,
    MOST_HELD,
    MOST_REGISTERED,
)
from connectors.observations.log_event import (
    BrokerChanged,
    BrokerMinInSyncReplicasSet,
    BrokerUnregistered,
    ControllerUnregistered,
    FeatureLevelSet,
    GrantSet,
    KRaftVersionSet,
    LeaderChanged,
    ProducerIdsAllocated,
    ThrottleSet,
    TopicRemoved,
    TransactionBegan,
    TransactionEnded,
    Undecodable,
    UnknownRecords,
    VotersReplaced,
    ZkMigrationChanged,
)
from connectors.observations.partition_run import PartitionRun
from rules.model.history import NodeKind, RewriteCause, Throttle, ZkMigration
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.membership import BrokerRegistration, ControllerRegistration, RecordPosition, VoterSet
from rules.model.unreplayable import MOST_UNREPLAYABLE, Refusal, UnreplayableRecord
from streaming.replay import recent_history
from streaming.replay.emptied_replicas import with_emptied, without_topic
from streaming.replay.image import Image, changed_broker, registered_broker, registered_controller, with_unknown
from streaming.replay.partitions import PartitionOrTopic, Partitions

Control: TypeAlias = LeaderChanged | KRaftVersionSet | VotersReplaced
Registration: TypeAlias = (
    FeatureLevelSet
    | ControllerRegistration
    | ControllerUnregistered
    | BrokerRegistration
    | BrokerChanged
    | BrokerUnregistered
    | ProducerIdsAllocated
    | ZkMigrationChanged
)
Data: TypeAlias = PartitionOrTopic | Registration | BrokerMinInSyncReplicasSet | ThrottleSet | GrantSet
Record: TypeAlias = Control | Data | TransactionBegan | TransactionEnded | UnknownRecords

METADATA_VERSION = "metadata.version"
MOST_THROTTLES = 1_000
"""The topics and brokers whose throttles are kept: as many as partitions that are reassigned."""
MOST_MIN_ISRS = 1_000
"""The brokers whose own min.insync.replicas is kept."""
MOST_GRANTS = 20_000
"""The ACLs and credentials whose names are kept."""
MORE_GRANTS = "further ones"
_Changed: TypeAlias = Literal["features", "controllers", "brokers", "throttles", "broker_min_isrs", "grants"]
"""The mappings of an image that records change."""


@dataclass(slots=True, kw_only=True)
class Transaction:
    """An open transaction: its records are applied when its end record is read."""

    began: RecordPosition
    name: str | None
    held: list[Data] = field(default_factory=list)

    @property
    def controllers(self) -> Iterator[ControllerRegistration]:
        """The controllers that registered in it: they run, whether or not it ends."""
        return (one for one in self.held if isinstance(one, ControllerRegistration))


@dataclass(slots=True, kw_only=True, eq=False)
class Log:
    """The metadata log since its last rewrite, or one snapshot of it.

    Invariant: `position` is the last offset whose whole observation was applied. `epoch` is the epoch of the newest
    applied batch. A snapshot has neither.
    """

    image: Image = field(default_factory=Image)
    partitions: Annotated[Partitions, InstanceOf(), Field(exclude=True)] = field(default_factory=Partitions)
    """Stored by itself (`state_codec`)."""
    position: Offset = Offset(-1)  # noqa: RUF009 - an int
    epoch: Epoch = Epoch(-1)  # noqa: RUF009 - an int
    origin: RecordPosition | None = None
    """Of a snapshot: the latest possible position of its records, its last contained offset."""
    transaction: Transaction | None = None
    refused: Annotated[list[Undecodable], Field(exclude=True)] = field(default_factory=list)
    """Records beyond a limit of `value_limits`, until `take_refused`."""
    _copied: Annotated[set[str], Field(exclude=True)] = field(default_factory=set)
    """The mappings of the image that were copied since the last observation ended: the image is no one else's yet."""
    _registered: Annotated[int | None, Field(exclude=True)] = None
    """How many listeners and features the image's nodes have; None: not counted yet."""

    def apply(self, record: Record) -> None:
        """Applies a record, or holds it while a transaction is open. Control records are never held."""
        at = record.at
        if self.origin is None:
            # Also if it is lower, which is reported: later ones are not compared with a false epoch.
            self.epoch = at.leader_epoch
        match record:
            case LeaderChanged() | KRaftVersionSet() | VotersReplaced():
                self._apply_control(record, self.origin or at)
            case TransactionBegan():
                # Kafka rejects a second begin record. The first transaction never ended, so its records are dropped.
                if self.transaction is not None:
                    self._note(record, "BeginTransactionRecord", Refusal.TRANSACTION_OPEN, _transaction(record.name))
                self.transaction = Transaction(began=at, name=record.name)
            case TransactionEnded():
                self._end_transaction(record)
            case UnknownRecords():
                self.image = replace(self.image, unknown_records=with_unknown(self.image.unknown_records, record))
                if record.kafka_class is not None:
                    self.lacks_records()
            case _ if self.transaction is None:
                self._apply_data(record)
            case _:
                self._hold(self.transaction, record)

    def override_voters(self, record: VotersReplaced) -> None:
        """Applies the voter set of a snapshot of records that were applied before, from a record that the log lacks."""
        self._apply_control(record, record.at)

    def apply_run(self, run: PartitionRun) -> None:
        """Applies the records of a run, or holds them while a transaction is open."""
        if self.origin is None:
            self.epoch = Epoch(run.leader_epoch)
        if self.transaction is None:
            self.partitions.apply_run(run, self.origin, self.image)
        else:
            for event in run.events():
                self._hold(self.transaction, event)

    def take_refused(self) -> Sequence[Undecodable]:
        """Returns the records beyond a limit since the last call."""
        if not (self.refused or self.partitions.refused):
            return ()
        self.lacks_records()
        found = [*self.refused, *self.partitions.refused]
        self.refused.clear()
        self.partitions.refused.clear()
        return found

    def lacks_records(self) -> None:
        """Notes that a record could not be read or is not kept: what others refer to may be in it."""
        if not self.image.lacks_records:
            self.image = replace(self.image, lacks_records=True)

    def _note(self, record: Data | TransactionBegan | TransactionEnded, kind: str, refusal: Refusal, what: str) -> None:
        """Notes that Kafka cannot replay a record, which is then applied as far as it can be."""
        at = record.at
        one = UnreplayableRecord(offset=at.offset, snapshot=at.snapshot, record=kind, refusal=refusal, about=what)
        self._keep_unreplayable((one,))

    def _keep_unreplayable(self, found: Sequence[UnreplayableRecord]) -> None:
        image = self.image
        if (image.complete or self.origin is not None) and not image.lacks_records:
            known = (*image.unreplayable, *found)[:MOST_UNREPLAYABLE]
            self.image = replace(image, unreplayable=known)

    def _hold(self, transaction: Transaction, record: Data) -> None:
        if len(transaction.held) < MOST_HELD:
            transaction.held.append(record)
        else:
            self._refuse(record, f"a record of a transaction that has {MOST_HELD} already, and no more are accepted")

    def end_observation(self, *, last_offset: Offset | None = None, newest_timestamp_ms: Millis | None = None) -> None:
        """Updates the image with the recoveries and the read position at the end of an observation."""
        self._copied.clear()
        if self.partitions.unreplayable:
            self._keep_unreplayable(self.partitions.unreplayable)
            self.partitions.unreplayable.clear()
        image = self.image
        if self.partitions.elected_recovered:
            for election in self.partitions.elected_recovered if self.origin is None else ():
                image = replace(image, history=recent_history.with_elected_recovered(image.history, election))
        if self.partitions.unclean and self.origin is None:
            image = replace(image, history=recent_history.with_unclean(image.history, self.partitions.unclean))
        if self.partitions.rewrites and self.origin is None:
            image = replace(image, history=recent_history.with_rewrites(image.history, self.partitions.rewrites))
        if self.partitions.emptied.found and self.origin is None:
            found = self.partitions.emptied.found.values()
            image = replace(image, history=with_emptied(image.history, found))
        self.partitions.end_observation(image.brokers)
        of_partitions: dict[str, Any] = {
            "recovering": self.partitions.recovering,
            "offline": self.partitions.offline,
            "under_min_isr": self.partitions.under_min_isr,
            "needed_replicas": self.partitions.needed_replicas,
            "out_of_sync": self.partitions.out_of_sync,
            "brokers_down": self.partitions.brokers_down,
            "min_isr": self.partitions.min_isr,
            "offline_directories": self.partitions.offline_directories,
            "reassignments": self.partitions.reassignments,
        }
        if last_offset is not None and last_offset > self.position:
            self.position = last_offset
            image = replace(
                image,
                last_offset=last_offset,
                newest_timestamp_ms=image.newest_timestamp_ms if newest_timestamp_ms is None else newest_timestamp_ms,
                **of_partitions,
            )
        elif any(value is not getattr(image, name) for name, value in of_partitions.items()):
            image = replace(image, **of_partitions)
        self.image = image

    def _end_transaction(self, ended: TransactionEnded) -> None:
        transaction, self.transaction = self.transaction, None
        if transaction is None:
            kind = "AbortTransactionRecord" if ended.aborted else "EndTransactionRecord"
            self._note(ended, kind, Refusal.NO_TRANSACTION, "no transaction")
        elif not ended.aborted:
            for record in transaction.held:
                self._apply_data(record)
        elif self.origin is None:
            for record in transaction.controllers:
                history = recent_history.with_controller_start(self.image, record)
                self.image = replace(self.image, history=history)

    def _apply_data(self, record: Data) -> None:
        if isinstance(record, PartitionOrTopic):
            if isinstance(record, TopicRemoved) and self.image.throttles:
                self._remove_throttle(record)
            self.partitions.apply(record, self.origin or record.at, self.image)
            if isinstance(record, TopicRemoved) and self.image.history.emptied:
                history = without_topic(self.image.history, record.topic_id)
                self.image = replace(self.image, history=history)
        elif isinstance(record, ThrottleSet):
            self._set_throttle(record)
        elif isinstance(record, BrokerMinInSyncReplicasSet):
            self._set_broker_min_isr(record)
        elif isinstance(record, GrantSet):
            self._set_grant(record)
        else:
            self._apply_registration(record, self.origin or record.at)

    def _apply_control(self, record: Control, origin: RecordPosition) -> None:
        image = self.image
        match record:
            case LeaderChanged():
                if self.origin is None:
                    image = replace(image, history=recent_history.with_leader_change(image, record))
                image = replace(image, leader_id=record.leader_id, leader_epoch=origin.leader_epoch)
                if origin.offset == 0 and self.origin is None:
                    # The first record of a log that was never compacted.
                    image = replace(image, complete=True)
            case KRaftVersionSet():
                if self.origin is None:
                    image = replace(image, history=recent_history.with_kraft_version(image, record))
                image = replace(image, kraft_version=record.version)
            case VotersReplaced():
                # A snapshot's set gets its last contained offset, as in Kafka's KRaftControlRecordStateMachine.
                committed = VoterSet(
                    voters=record.voters,
                    offset=origin.offset,
                    leader_epoch=origin.leader_epoch,
                    timestamp_ms=origin.timestamp_ms,
                )
                if self.origin is None:
                    image = replace(
                        image, history=recent_history.with_voters(image.history, image.committed, committed, record.at)
                    )
                image = replace(image, committed=committed)
        self.image = image

    def _apply_registration(self, record: Registration, origin: RecordPosition) -> None:
        match record:
            case FeatureLevelSet():
                self._set_feature(record)
            case ControllerRegistration():
                self._register_controller(record, origin)
            case ControllerUnregistered():
                self._unregister("controllers", NodeKind.CONTROLLER, record)
            case BrokerRegistration():
                self._register_broker(record, origin)
            case BrokerChanged():
                before = self.image.brokers.get(record.id)
                self._require_broker(before, record, "BrokerRegistrationChangeRecord")
                if before is not None:
                    self._set_broker(before, changed_broker(before, record, origin), record.at)
            case ProducerIdsAllocated():
                self._count_block(record)
            case ZkMigrationChanged():
                self._set_zk_migration(record, origin)
            case BrokerUnregistered():
                self._unregister("brokers", NodeKind.BROKER, record)
                self.partitions.directories_changed()
                self.partitions.brokers_changed()

    def _require_broker(
        self, before: BrokerRegistration | None, record: BrokerChanged | BrokerUnregistered, kind: str
    ) -> None:
        """Notes a record of a broker that is not registered, or not with this epoch."""
        if before is None:
            self._note(record, kind, Refusal.BROKER, f"broker {record.id}")
        elif None not in (before.broker_epoch, record.broker_epoch) and before.broker_epoch != record.broker_epoch:
            epochs = f"with epoch {record.broker_epoch}, registered with {before.broker_epoch}"
            self._note(record, kind, Refusal.BROKER_EPOCH, f"broker {record.id} {epochs}")

    def _set_feature(self, record: FeatureLevelSet) -> None:
        """Applies a FeatureLevelRecord: level 0 removes the feature."""
        features = self._own("features")
        if not record.level:
            features.pop(record.name, None)
        elif record.name in features or len(features) < MOST_FEATURES:
            features[record.name] = record.level
        else:
            self._refuse(record, f"a feature beside the {MOST_FEATURES} finalized ones, and no more are accepted")
        if record.name == METADATA_VERSION:
            history = self.image.history
            if self.origin is None:
                history = recent_history.with_metadata_version(history, record)
            self.image = replace(self.image, metadata_version=record.level, history=history)

    def _count_block(self, record: ProducerIdsAllocated) -> None:
        """Counts a block of producer ids; each broker needs a first one once it has registered."""
        before, next_id = self.image.next_producer_id, record.next_id
        if next_id is not None and before != next_id:
            self.image = replace(self.image, next_producer_id=next_id)
        if None not in (before, next_id) and self.origin is None and (next_id or 0) <= (before or 0):
            what = f"producer id {next_id} after {before}"
            self._note(record, "ProducerIdsRecord", Refusal.PRODUCER_ID, what)
        broker = None if record.broker is None else self.image.brokers.get(record.broker)
        if broker is None or self.origin is not None:
            return
        self._own("brokers")[broker.id] = replace(broker, producer_id_blocks=broker.producer_id_blocks + 1)
        if broker.producer_id_blocks:
            self._note_rewrite(RewriteCause.PRODUCER_IDS, broker.id, record.at)

    def _note_rewrite(self, cause: RewriteCause, node: NodeId, at: RecordPosition) -> None:
        if self.origin is None:
            one = recent_history.Rewrite(cause, at.timestamp_ms, (node,))
            self.image = replace(self.image, history=recent_history.with_rewrites(self.image.history, [one]))

    def _set_throttle(self, record: ThrottleSet) -> None:
        """Applies a ConfigRecord of a throttle; those of the first MOST_THROTTLES topics and brokers are kept."""
        of_broker = "brokers" if record.broker is None else f"broker {record.broker}"
        name = of_broker if record.topic is None else f"topic {record.topic}"
        known = self.image.throttles.get(name)
        settings = {*(() if known is None else known.settings)} ^ {record.setting}
        if (record.setting in settings) is not record.is_set:
            return
        if not settings:
            self._own("throttles").pop(name)
        elif known is not None or len(self.image.throttles) < MOST_THROTTLES:
            throttle = Throttle(topic=record.topic, broker=record.broker, settings=tuple(sorted(settings)))
            self._own("throttles")[name] = throttle

    def _set_broker_min_isr(self, record: BrokerMinInSyncReplicasSet) -> None:
        """Applies a ConfigRecord of one broker's min.insync.replicas; those of the first MOST_MIN_ISRS are kept."""
        known = self._own("broker_min_isrs")
        if record.value is None:
            known.pop(record.broker, None)
        elif record.broker in known or len(known) < MOST_MIN_ISRS:
            known[record.broker] = record.value

    def _set_grant(self, record: GrantSet) -> None:
        """Keeps the name of an ACL or a credential until it is removed: Kafka cannot replay the removal of another."""
        grants, name = self.image.grants, record.grant
        if record.is_set:
            if name not in grants:
                self._own("grants")[name if len(grants) < MOST_GRANTS else MORE_GRANTS] = True
        elif name in grants:
            del self._own("grants")[name]
        elif MORE_GRANTS not in grants:
            kind = "RemoveAccessControlEntryRecord" if record.is_acl else "RemoveUserScramCredentialRecord"
            self._note(record, kind, Refusal.ACL if record.is_acl else Refusal.CREDENTIAL, name)

    def _remove_throttle(self, record: TopicRemoved) -> None:
        """Removes the throttle of a topic that is removed, as its other settings."""
        topic = self.partitions.topics.get(record.topic_id)
        if topic is not None and (name := f"topic {topic.name}") in self.image.throttles:
            self._own("throttles").pop(name)

    def _set_zk_migration(self, record: ZkMigrationChanged, origin: RecordPosition) -> None:
        known = self.image.zk_migration
        if known is None or known.state is not record.state:
            known = ZkMigration(state=record.state, since_timestamp_ms=origin.timestamp_ms, at_least=origin.snapshot)
            self.image = replace(self.image, zk_migration=known)

    def _register_controller(self, record: ControllerRegistration, origin: RecordPosition) -> None:
        before = self.image.controllers.get(record.id)
        what = f"controller {record.id}"
        if self._is_accepted(record, before, what, registered=len(self.image.controllers), most=MOST_CONTROLLERS):
            if self.origin is None:
                self.image = replace(self.image, history=recent_history.with_controller_start(self.image, record))
            self._own("controllers")[record.id] = registered_controller(before, record, origin)

    def _register_broker(self, record: BrokerRegistration, origin: RecordPosition) -> None:
        self.partitions.broker_registered(record.id, origin.timestamp_ms)
        before = self.image.brokers.get(record.id)
        what = f"broker {record.id}"
        if self.origin is None and (directories := {*record.log_dirs}):
            others = (one.id for one in self.image.brokers.values() if not directories.isdisjoint(one.log_dirs))
            if (other := next((node for node in others if node != record.id), None)) is not None:
                about = f"{what}, with a directory of broker {other}"
                self._note(record, "RegisterBrokerRecord", Refusal.DIRECTORY, about)
        if self._is_accepted(record, before, what, registered=len(self.image.brokers), most=MOST_BROKERS):
            self._set_broker(before, registered_broker(before, record, origin), record.at)
            if before is not None and before.incarnation_id == record.incarnation_id:
                self._note_rewrite(RewriteCause.BROKER, record.id, record.at)

    def _set_broker(self, before: BrokerRegistration | None, after: BrokerRegistration, at: RecordPosition) -> None:
        """Keeps a registration; a record of the log, unlike one of a snapshot, is also history."""
        self._own("brokers")[after.id] = after
        self.partitions.brokers_changed()
        if before is None or before.log_dirs != after.log_dirs:
            self.partitions.directories_changed()
        if self.origin is None:
            history = recent_history.with_broker(self.image.history, before, after, at)
            self.image = replace(self.image, history=history)

    def _unregister(
        self,
        mapping: Literal["controllers", "brokers"],
        kind: NodeKind,
        record: BrokerUnregistered | ControllerUnregistered,
    ) -> None:
        before = self._own(mapping).pop(record.id, None)
        if isinstance(record, BrokerUnregistered):
            self._require_broker(before, record, "UnregisterBrokerRecord")
        elif before is None:
            self._note(record, "UnregisterControllerRecord", Refusal.CONTROLLER, f"controller {record.id}")
        if before is not None:
            self._registered = self._count() - _size(before)
            if self.origin is None:
                history = recent_history.with_unregistration(self.image.history, kind, record.id, record.at)
                self.image = replace(self.image, history=history)

    def _is_accepted(
        self,
        record: BrokerRegistration | ControllerRegistration,
        before: BrokerRegistration | ControllerRegistration | None,
        what: str,
        *,
        registered: int,
        most: int,
    ) -> bool:
        """Returns whether a registration is within the limits; otherwise it is refused."""
        size = self._count() + _size(record) - (0 if before is None else _size(before))
        if before is None and registered >= most:
            self._refuse(record, f"{what} is not one of the first {most}, and no more are accepted")
        elif size > MOST_REGISTERED:
            many = f"{size} listeners and features of all nodes, expected at most {MOST_REGISTERED}"
            self._refuse(record, f"{what}: with it there are {many}")
        else:
            self._registered = size
            return True
        return False

    def _refuse(self, record: Data, reason: str) -> None:
        self.refused.append(Undecodable(offset=record.at.offset, reason=reason, length=0))

    def _count(self) -> int:
        """Returns how many listeners and features all registered nodes have."""
        if self._registered is None:
            nodes = self.image.controllers.values(), self.image.brokers.values()
            self._registered = sum(_size(one) for node in nodes for one in node)
        return self._registered

    def _own(self, name: _Changed) -> dict[Any, Any]:
        """Returns a mapping of the image to be changed in place: a copy, made before its first change in a row."""
        if name not in self._copied:
            self._copied.add(name)
            copy: dict[str, Any] = {name: dict(getattr(self.image, name))}
            self.image = replace(self.image, **copy)
        mapping: dict[Any, Any] = getattr(self.image, name)
        return mapping


def _transaction(name: str | None) -> str:
    return "a transaction without a name" if name is None else f"transaction {name}"


def _size(one: BrokerRegistration | ControllerRegistration) -> int:
    return len(one.endpoints) + len(one.features)
