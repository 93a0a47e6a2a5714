"""LogEvent: one record of the metadata log, decoded.

Each event of a record carries `at`: the record's offset, leader epoch and timestamp.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from rules.model.history import ZkMigrationState
from rules.model.identifiers import DirectoryId, Epoch, Millis, NodeId, Offset, TopicId
from rules.model.membership import BrokerRegistration, ControllerRegistration, RecordPosition, Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotBegan:
    """SnapshotHeaderRecord: the following records replace all state once the footer arrives."""

    at: RecordPosition
    end_offset: Offset
    epoch: Epoch
    last_contained_timestamp_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEnded:
    """SnapshotFooterRecord."""

    at: RecordPosition
    end_offset: Offset
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChanged:
    """LeaderChangeMessage: the first record of a leader epoch (KIP-595)."""

    at: RecordPosition
    leader_id: NodeId
    voter_ids: tuple[NodeId, ...]
    granting_voter_ids: tuple[NodeId, ...] = ()
    """The voters that voted for the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVersionSet:
    """KRaftVersionRecord: 0 static, 1 dynamic quorum (KIP-853)."""

    at: RecordPosition
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VotersReplaced:
    """VotersRecord: the whole voter set (KIP-853)."""

    at: RecordPosition
    voters: tuple[Voter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelSet:
    """FeatureLevelRecord: one finalized feature level, for example of metadata.version."""

    at: RecordPosition
    name: str
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChanged:
    """BrokerRegistrationChangeRecord, and the older FenceBroker and UnfenceBroker. None = unchanged."""

    at: RecordPosition
    id: NodeId
    fenced: bool | None
    in_controlled_shutdown: bool | None
    log_dirs: tuple[DirectoryId, ...] | None = None
    """The ids of the log directories that are online now (KIP-858)."""
    broker_epoch: int | None = None
    """The epoch of the registration that it changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnregistered:
    """UnregisterBrokerRecord."""

    at: RecordPosition
    id: NodeId
    broker_epoch: int | None = None
    """The epoch of the registration that it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerUnregistered:
    """UnregisterControllerRecord (KIP-1312, Kafka 4.4)."""

    at: RecordPosition
    id: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreated:
    """TopicRecord."""

    at: RecordPosition
    topic_id: TopicId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRemoved:
    """RemoveTopicRecord."""

    at: RecordPosition
    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSet:
    """PartitionRecord: the whole state of a partition."""

    at: RecordPosition
    topic_id: TopicId
    partition: int
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    elr: tuple[NodeId, ...]
    leader: NodeId | None
    partition_leader_epoch: int
    recovering: bool
    last_known_elr: tuple[NodeId, ...] = ()
    partition_epoch: int | None = None
    directories: tuple[DirectoryId | None, ...] = ()
    """The log directory of each replica (KIP-858), None for the zero UUID; empty before Kafka 3.7."""
    adding: tuple[NodeId, ...] = ()
    """The replicas that a reassignment adds (KIP-455), as `removing` those that it will remove."""
    removing: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChanged:
    """PartitionChangeRecord: None = unchanged. `leader_set` distinguishes "no leader" from "leader unchanged"."""

    at: RecordPosition
    topic_id: TopicId
    partition: int
    replicas: tuple[NodeId, ...] | None
    isr: tuple[NodeId, ...] | None
    elr: tuple[NodeId, ...] | None
    leader: NodeId | None
    leader_set: bool
    recovering: bool | None
    last_known_elr: tuple[NodeId, ...] | None = None
    directories: tuple[DirectoryId | None, ...] | None = None
    adding: tuple[NodeId, ...] | None = None
    removing: tuple[NodeId, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElrCleared:
    """ClearElrRecord: the ELRs of the topic (of every topic if `topic` is None) are cleared (KIP-966)."""

    at: RecordPosition
    topic: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MinInSyncReplicasSet:
    """ConfigRecord of min.insync.replicas."""

    at: RecordPosition
    topic: str | None
    """None: the default of the cluster."""
    value: int | None
    """None: the configuration is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMinInSyncReplicasSet:
    """ConfigRecord of one broker's min.insync.replicas, which holds for the partitions that it leads."""

    at: RecordPosition
    broker: NodeId
    value: int | None
    """None: the configuration is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleSet:
    """ConfigRecord of a setting that slows replication down (KIP-73); its value is not needed."""

    at: RecordPosition
    topic: str | None = None
    """Whose replicas are throttled."""
    broker: NodeId | None = None
    """Whose rate it is. None, as `topic`: the default of all brokers."""
    setting: str
    is_set: bool
    """False: the setting is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantSet:
    """AccessControlEntryRecord or UserScramCredentialRecord, or the record that removes one; what it grants is not
    needed."""

    at: RecordPosition
    grant: str
    """What tells it from all others: `ACL dgQ5zAGDQS6vQpGiXrO3-w`, or `SCRAM-SHA-256 of user alice`."""
    is_set: bool
    """False: it is removed."""

    @property
    def is_acl(self) -> bool:
        """Whether it is an ACL, and not a credential."""
        return self.grant.startswith("ACL ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsAllocated:
    """ProducerIdsRecord (KIP-730): a broker has asked for a block of 1,000 producer ids."""

    at: RecordPosition
    broker: NodeId | None
    """None in a snapshot, which has the next id alone (Kafka's ProducerIdsImage writes -1)."""
    next_id: int | None = None
    """The first id that no broker has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkMigrationChanged:
    """ZkMigrationStateRecord (KIP-866)."""

    at: RecordPosition
    state: ZkMigrationState


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionBegan:
    """BeginTransactionRecord (KIP-868): the following records take effect only at the end record."""

    at: RecordPosition
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded:
    """EndTransactionRecord; with `aborted`, AbortTransactionRecord."""

    at: RecordPosition
    aborted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochDrop:
    """A batch with a lower leader epoch than the batch before it: in one log epochs never decrease (KIP-595)."""

    offset: Offset
    epoch: Epoch
    before: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAdvanced:
    """The last event of every `records` observation: how far the log is read, NoOps included."""

    last_offset: Offset | None
    leader_epoch: Epoch | None
    high_watermark: Offset | None
    newest_timestamp_ms: Millis | None
    """None if the observation held no batch."""
    newest_noop_ms: Millis | None = None
    """The time of the newest batch that is a NoOp; None if there was none."""
    base_offset: Offset | None = None
    """The offset from which on the log was read."""
    first_epoch: Epoch | None = None
    """The leader epoch of the first batch, NoOps included; None if there was none."""
    last_epoch: Epoch | None = None
    epoch_drop: EpochDrop | None = None
    """The first batch with a lower epoch than the one before it in the same observation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecodable:
    """A batch or record that cannot be decoded. It is quarantined and counted, and decoding continues after it."""

    offset: Offset | None
    reason: str
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownRecords:
    """Records of one batch whose type or version this kraftwatch does not know. They are counted, and else skipped."""

    at: RecordPosition
    """Of the first of them."""
    name: str
    """Their type and version, such as `record type 501 version 0` or `PartitionRecord version 9`."""
    kafka_class: str | None
    """Kafka's class; None if the type itself is unknown."""
    count: int = 1


LogEvent: TypeAlias = (
    SnapshotBegan
    | SnapshotEnded
    | LeaderChanged
    | KRaftVersionSet
    | VotersReplaced
    | FeatureLevelSet
    | ControllerRegistration
    | BrokerRegistration
    | BrokerChanged
    | BrokerUnregistered
    | ControllerUnregistered
    | TopicCreated
    | TopicRemoved
    | PartitionSet
    | PartitionChanged
    | ElrCleared
    | MinInSyncReplicasSet
    | BrokerMinInSyncReplicasSet
    | ThrottleSet
    | GrantSet
    | ProducerIdsAllocated
    | ZkMigrationChanged
    | TransactionBegan
    | TransactionEnded
    | LogAdvanced
    | Undecodable
    | UnknownRecords
)

LOG_EVENT_TYPES: Final[Mapping[type, str]] = {
    SnapshotBegan: "snapshot-began",
    SnapshotEnded: "snapshot-ended",
    LeaderChanged: "leader-changed",
    KRaftVersionSet: "kraft-version-set",
    VotersReplaced: "voters-replaced",
    FeatureLevelSet: "feature-level-set",
    ControllerRegistration: "controller-registered",
    BrokerRegistration: "broker-registered",
    BrokerChanged: "broker-changed",
    BrokerUnregistered: "broker-unregistered",
    ControllerUnregistered: "controller-unregistered",
    TopicCreated: "topic-created",
    TopicRemoved: "topic-removed",
    PartitionSet: "partition-set",
    PartitionChanged: "partition-changed",
    ElrCleared: "elr-cleared",
    MinInSyncReplicasSet: "min-in-sync-replicas-set",
    BrokerMinInSyncReplicasSet: "broker-min-in-sync-replicas-set",
    ThrottleSet: "throttle-set",
    GrantSet: "grant-set",
    ProducerIdsAllocated: "producer-ids-allocated",
    ZkMigrationChanged: "zk-migration-changed",
    TransactionBegan: "transaction-began",
    TransactionEnded: "transaction-ended",
    LogAdvanced: "log-advanced",
    Undecodable: "undecodable",
    UnknownRecords: "unknown-records",
}
"""The names that these events have in JSON and in DataFrames."""
