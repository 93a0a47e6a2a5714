"""A Log being replayed: its image, its partitions, and its open transaction (KIP-868)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, TypeAlias

from pydantic import Field, InstanceOf

from connectors.observations.log_event import (
    BrokerChanged,
    BrokerUnregistered,
    FeatureLevelSet,
    KRaftVersionSet,
    LeaderChanged,
    TransactionBegan,
    TransactionEnded,
    VotersReplaced,
)
from connectors.observations.partition_run import PartitionRun
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.membership import BrokerRegistration, ControllerRegistration, RecordPosition, VoterSet
from streaming.replay import recent_history
from streaming.replay.copied import copied
from streaming.replay.image import (
    Image,
    with_broker,
    with_change,
    with_controller,
    with_feature,
)
from streaming.replay.partitions import PartitionOrTopic, Partitions

Control: TypeAlias = LeaderChanged | KRaftVersionSet | VotersReplaced
Registration: TypeAlias = (
    FeatureLevelSet | ControllerRegistration | BrokerRegistration | BrokerChanged | BrokerUnregistered
)
Data: TypeAlias = PartitionOrTopic | Registration
Record: TypeAlias = Control | Data | TransactionBegan | TransactionEnded

METADATA_VERSION = "metadata.version"


@dataclass(slots=True, kw_only=True)
class Transaction:
    """An open transaction: its records are applied when its end record is read."""

    began: RecordPosition
    name: str | None
    held: list[Annotated[Data, Field(discriminator="type")]] = field(default_factory=list)


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
                self.transaction = Transaction(began=at, name=record.name)
            case TransactionEnded():
                self._end_transaction(record)
            case _ if self.transaction is None:
                self._apply_data(record)
            case _:
                self.transaction.held.append(record)

    def override_voters(self, record: VotersReplaced) -> None:
        """Applies the voter set of a snapshot of records that were applied before, from a record that the log lacks."""
        self._apply_control(record, record.at)

    def apply_run(self, run: PartitionRun) -> None:
        """Applies the records of a run, or holds them while a transaction is open."""
        if self.origin is None:
            self.epoch = Epoch(run.leader_epoch)
        if self.transaction is None:
            self.partitions.apply_run(run, self.origin)
        else:
            self.transaction.held += run.events()

    def end_observation(self, *, last_offset: Offset | None = None, newest_timestamp_ms: Millis | None = None) -> None:
        """Updates the image with the recoveries and the read position at the end of an observation."""
        image = self.image
        if self.partitions.elected_recovered:
            for one in self.partitions.elected_recovered if self.origin is None else ():
                image = replace(image, history=recent_history.with_elected_recovered(image.history, one))
            self.partitions.elected_recovered.clear()
        if self.partitions.unclean:
            if self.origin is None:
                image = replace(image, history=recent_history.with_unclean(image.history, self.partitions.unclean))
            self.partitions.unclean.clear()
        recovering = self.partitions.recovering
        if last_offset is not None and last_offset > self.position:
            self.position = last_offset
            image = replace(
                image,
                last_offset=last_offset,
                newest_timestamp_ms=image.newest_timestamp_ms if newest_timestamp_ms is None else newest_timestamp_ms,
                recovering=recovering,
            )
        elif recovering is not image.recovering:
            image = replace(image, recovering=recovering)
        self.image = image

    def _end_transaction(self, ended: TransactionEnded) -> None:
        transaction, self.transaction = self.transaction, None
        if transaction is not None and not ended.aborted:
            for record in transaction.held:
                self._apply_data(record)

    def _apply_data(self, record: Data) -> None:
        if isinstance(record, PartitionOrTopic):
            self.partitions.apply(record, self.origin or record.at)
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
                image = replace(image, kraft_version=record.version)
            case VotersReplaced():
                # A snapshot's set gets its last contained offset, as in Kafka's KRaftControlRecordStateMachine.
                committed = copied(VoterSet, origin, voters=record.voters)
                if self.origin is None:
                    image = replace(
                        image, history=recent_history.with_voters(image.history, image.committed, committed, record.at)
                    )
                image = replace(image, committed=committed)
        self.image = image

    def _apply_registration(self, record: Registration, origin: RecordPosition) -> None:
        image = self.image
        match record:
            case FeatureLevelSet():
                image = replace(image, features=with_feature(image.features, record))
                if record.name == METADATA_VERSION:
                    image = replace(image, metadata_version=record.level)
            case ControllerRegistration():
                if self.origin is None:
                    image = replace(image, history=recent_history.with_controller_start(image, record))
                image = replace(image, controllers=with_controller(image.controllers, record, origin))
            case BrokerRegistration():
                self.partitions.broker_registered(record.id, origin.timestamp_ms)
                image = self._with_brokers(record, with_broker(image.brokers, record, origin))
            case BrokerChanged():
                image = self._with_brokers(record, with_change(image.brokers, record, origin))
            case BrokerUnregistered():
                image = replace(image, brokers={k: v for k, v in image.brokers.items() if k != record.id})
        self.image = image

    def _with_brokers(
        self, record: BrokerRegistration | BrokerChanged, brokers: Mapping[NodeId, BrokerRegistration]
    ) -> Image:
        """Returns the image with these brokers; a record of the log, unlike one of a snapshot, is also history."""
        image, history = self.image, self.image.history
        if self.origin is None and record.id in brokers:
            history = recent_history.with_broker(history, image.brokers.get(record.id), brokers[record.id], record.at)
        return replace(image, brokers=brokers, history=history)
