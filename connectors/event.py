"""An Event: one thing an observation says, decoded. The closed union that replay applies.

Events from the log carry `At`: where in the log, and when by the log's own clock. Events from polls,
probes and failed looks carry only what was seen; when is the observation's `observed_at_ms`.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, TopicId
from rules.model.monitoring import Answer, Connection, LeaderLog, ObservationSource, Reason, Resolution
from rules.model.poll import Replica
from rules.model.registration import FeatureRange
from rules.model.voter_set import Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """Where a record stands: its offset, the epoch of its batch, and its timestamp by the log's clock."""

    offset: Offset
    leader_epoch: Epoch
    timestamp_ms: Millis
    snapshot: bool = False
    """From a `.checkpoint`: the offset counts within the snapshot file, not in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotBegan:
    """SnapshotHeaderRecord: what follows replaces all state, once the footer has come."""

    at: At
    end_offset: Offset
    epoch: Epoch
    last_contained_timestamp_ms: Millis
    type: Literal["snapshot-began"] = "snapshot-began"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEnded:
    """SnapshotFooterRecord."""

    at: At
    end_offset: Offset
    epoch: Epoch
    type: Literal["snapshot-ended"] = "snapshot-ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChanged:
    """LeaderChangeMessage: the first record of a leader epoch (KIP-595)."""

    at: At
    leader_id: NodeId
    voter_ids: tuple[NodeId, ...]
    type: Literal["leader-changed"] = "leader-changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVersionSet:
    """KRaftVersionRecord: 0 static, 1 dynamic quorum (KIP-853)."""

    at: At
    version: int
    type: Literal["kraft-version-set"] = "kraft-version-set"


@dataclass(frozen=True, slots=True, kw_only=True)
class VotersSet:
    """VotersRecord: the whole voter set (KIP-853)."""

    at: At
    voters: tuple[Voter, ...]
    type: Literal["voters-set"] = "voters-set"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelSet:
    """FeatureLevelRecord, metadata.version among them."""

    at: At
    name: str
    level: int
    type: Literal["feature-level-set"] = "feature-level-set"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistered:
    """RegisterControllerRecord."""

    at: At
    id: NodeId
    incarnation_id: str
    endpoints: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...] | None = None
    """None only in an event that was held back in a transaction by an older kraftwatch."""
    type: Literal["controller-registered"] = "controller-registered"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistered:
    """RegisterBrokerRecord."""

    at: At
    id: NodeId
    incarnation_id: str
    endpoints: tuple[Endpoint, ...]
    fenced: bool
    in_controlled_shutdown: bool
    features: tuple[FeatureRange, ...] | None = None
    type: Literal["broker-registered"] = "broker-registered"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChanged:
    """BrokerRegistrationChangeRecord, and the older FenceBroker and UnfenceBroker. None = unchanged."""

    at: At
    id: NodeId
    fenced: bool | None
    in_controlled_shutdown: bool | None
    type: Literal["broker-changed"] = "broker-changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnregistered:
    """UnregisterBrokerRecord."""

    at: At
    id: NodeId
    type: Literal["broker-unregistered"] = "broker-unregistered"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreated:
    """TopicRecord."""

    at: At
    topic_id: TopicId
    name: str
    type: Literal["topic-created"] = "topic-created"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRemoved:
    """RemoveTopicRecord."""

    at: At
    topic_id: TopicId
    type: Literal["topic-removed"] = "topic-removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSet:
    """PartitionRecord: a partition, whole."""

    at: At
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
    """None only in an event that was held back in a transaction by an older kraftwatch."""
    type: Literal["partition-set"] = "partition-set"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChanged:
    """PartitionChangeRecord: None = unchanged. `leader_set` tells "no leader now" from "unchanged"."""

    at: At
    topic_id: TopicId
    partition: int
    replicas: tuple[NodeId, ...] | None
    isr: tuple[NodeId, ...] | None
    elr: tuple[NodeId, ...] | None
    leader: NodeId | None
    leader_set: bool
    recovering: bool | None
    last_known_elr: tuple[NodeId, ...] | None = None
    type: Literal["partition-changed"] = "partition-changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ElrCleared:
    """ClearElrRecord: the topic's (or, with no name, every topic's) ELRs are forgotten (KIP-966)."""

    at: At
    topic: str | None
    type: Literal["elr-cleared"] = "elr-cleared"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionBegan:
    """BeginTransactionRecord (KIP-868): what follows counts only at its end record."""

    at: At
    name: str | None
    type: Literal["transaction-began"] = "transaction-began"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded:
    """EndTransactionRecord, or AbortTransactionRecord with `aborted`."""

    at: At
    aborted: bool
    type: Literal["transaction-ended"] = "transaction-ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAdvanced:
    """The end of one `records` observation: how far the log is read, NoOps included. Always its last event."""

    last_offset: Offset | None
    leader_epoch: Epoch | None
    high_watermark: Offset | None
    newest_timestamp_ms: Millis | None
    """None when the observation held no batch."""
    type: Literal["log-advanced"] = "log-advanced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecodable:
    """A batch or record that is not what it should be: quarantined, counted, the stream goes on."""

    offset: Offset | None
    reason: str
    length: int
    type: Literal["undecodable"] = "undecodable"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEndpoints:
    """A node and its listeners, as DescribeQuorum v2 lists them."""

    id: NodeId
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumPolled:
    """An answered DescribeQuorum."""

    cluster_id: str | None
    endpoint: str
    """HOST:PORT that answered."""
    leader_id: NodeId
    leader_epoch: Epoch
    high_watermark: Offset | None
    voters: tuple[Replica, ...]
    observers: tuple[Replica, ...]
    nodes: tuple[NodeEndpoints, ...]
    type: Literal["quorum-polled"] = "quorum-polled"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointProbed:
    """One look at one endpoint."""

    node: NodeId
    endpoint: Endpoint
    resolution: Resolution
    addresses: tuple[str, ...]
    connection: Connection
    answer: Answer
    answered_by: NodeId | None
    detail: str
    type: Literal["endpoint-probed"] = "endpoint-probed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderViewPolled:
    """What one controller said when it was asked who leads; of its log besides, where it leads itself."""

    endpoint: str
    """HOST:PORT that was asked."""
    node: NodeId | None
    """Whose endpoint that is, as far as is known."""
    this_cluster: bool
    """False: INCONSISTENT_CLUSTER_ID, and nothing more was said."""
    leader_id: NodeId | None
    leader_epoch: Epoch | None
    log: LeaderLog | None
    type: Literal["view-seen"] = "view-seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationFailed:
    """A look that failed, and why. `detail` never holds a secret."""

    sight: ObservationSource
    endpoint: str
    reason: Reason
    detail: str
    node: NodeId | None = None
    """Whose endpoint it was, where known."""
    directory_id: DirectoryId | None = None
    type: Literal["unseen"] = "unseen"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenContract:
    """A data contract that a sample broke. `example` never holds a secret."""

    contract: str
    promise: str
    grave: bool
    rows: int
    example: str
    sequence: int | None
    """The example's place in the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """What the audit of a sample says of one cluster's rows."""

    rows: int
    """How many were held against the contracts."""
    first_sequence: int
    last_sequence: int
    broken: tuple[BrokenContract, ...]
    type: Literal["audited"] = "audited"


LogEvent: TypeAlias = (
    SnapshotBegan
    | SnapshotEnded
    | LeaderChanged
    | KRaftVersionSet
    | VotersSet
    | FeatureLevelSet
    | ControllerRegistered
    | BrokerRegistered
    | BrokerChanged
    | BrokerUnregistered
    | TopicCreated
    | TopicRemoved
    | PartitionSet
    | PartitionChanged
    | ElrCleared
    | TransactionBegan
    | TransactionEnded
    | LogAdvanced
    | Undecodable
)
Event: TypeAlias = LogEvent | QuorumPolled | EndpointProbed | LeaderViewPolled | ObservationFailed | Audited

_JSON: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="type")])


def to_json(event: Event) -> bytes:
    """One event as one JSON object in UTF-8: what probes, polls and failed looks are recorded as."""
    return _JSON.dump_json(event)


def from_json(payload: bytes | str) -> Event:
    """The event that `to_json` wrote.

    Raises:
        pydantic.ValidationError: the payload is no event (a ValueError).
    """
    return _JSON.validate_json(payload)
