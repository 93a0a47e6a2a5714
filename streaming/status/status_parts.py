"""The parts of a cluster status: voters, history, one controller's log directory; how its times are written."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from rules.analysis.endpoint_status import EndpointFault, EndpointVerdict
from rules.formatting import from_iso, iso
from rules.model.following import Following
from rules.model.identifiers import DirectoryId, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.monitoring import CertificateFault


def _from_json(value: object) -> object:
    return from_iso(value) if isinstance(value, str) else value


UtcTime: TypeAlias = Annotated[
    Millis,
    BeforeValidator(_from_json),
    PlainSerializer(iso, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""Milliseconds since the epoch in Python; ISO 8601 UTC with milliseconds in JSON."""


class ReplicaRole(StrEnum):
    """A replica's role as `kafka-metadata-quorum describe --replication` prints it."""

    LEADER = "Leader"
    FOLLOWER = "Follower"
    OBSERVER = "Observer"


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterEndpoints:
    """A voter and its endpoints."""

    id: NodeId
    """Node id."""
    directory_id: DirectoryId | None
    """Directory id as Kafka prints it; null in a static quorum."""
    endpoints: tuple[str, ...]
    """LISTENER://HOST:PORT of each listener, an IPv6 address in brackets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedVoters:
    """The newest committed VotersRecord."""

    offset: Offset
    """Offset of the VotersRecord; -1 for the set that the directory was formatted with."""
    voters: tuple[VoterEndpoints, ...]
    """The voters, by node id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingVoters:
    """The difference between the leader's latest voter set and the committed one."""

    added: tuple[ReplicaKey, ...]
    """Voters of the leader's set that are not committed."""
    removed: tuple[ReplicaKey, ...]
    """Committed voters that the leader's set no longer holds."""
    moved: tuple[NodeId, ...] = ()
    """Voters with other endpoints in the leader's set than in the committed one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PossibleVoter:
    """An observer that can be added to the voters (KIP-853: CouldBeVoters)."""

    id: NodeId
    """Node id."""
    directory_id: DirectoryId | None
    """Directory id as Kafka prints it."""
    following: Following
    """Whether it fetches from the leader."""
    lag_time_ms: Millis | None
    """Time since it was last caught up, by the leader's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterEndpointStatus:
    """The endpoint at which the others dial one voter, and what the newest probe found there."""

    id: NodeId
    """Node id."""
    directory_id: DirectoryId | None
    """Directory id as Kafka prints it."""
    recorded: str | None
    """HOST:PORT in the VotersRecord, of the listener that controllers dial; null where it names none. Of a static
    quorum: in controller.quorum.voters of the leader."""
    registered: str | None
    """HOST:PORT of the same listener in the controller's newest registration."""
    verdict: EndpointVerdict
    """ok: the endpoint reaches the voter; stale: it does not; down: it refuses connections and the voter does not
    fetch; unknown: no probe decides it."""
    probe_result: str | None
    """What the newest probe found at the endpoint, as text."""
    faults: tuple[EndpointFault, ...]
    """Why the endpoint is stale."""
    following: Following
    """Whether the voter fetches from the leader."""
    addresses: tuple[str, ...]
    """IP addresses that its host name resolved to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateStatus:
    """The certificate that a controller presents at one endpoint."""

    id: NodeId
    """Node id."""
    endpoint: str
    """HOST:PORT that was probed."""
    expires_at_ms: Annotated[UtcTime, Field(alias="expires_at")]
    """When it expires."""
    fault: CertificateFault | None
    """Why the monitor does not accept it: expired, not-yet-valid, wrong-host, untrusted; null if it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationWithoutVoter:
    """A registered controller that is not a committed voter."""

    id: NodeId
    """Node id."""
    endpoints: tuple[str, ...]
    """LISTENER://HOST:PORT of each listener in the registration."""
    offset: Offset
    """Offset of the registration record."""
    observer: bool
    """Whether the leader lists it as an observer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus:
    """One row of `kafka-metadata-quorum describe --replication`, with liveness and lag as time."""

    node_id: NodeId
    """Node id."""
    directory_id: DirectoryId | None
    """Directory id as Kafka prints it."""
    log_end_offset: Offset | None
    """The offset after the replica's last record, as the leader knows it."""
    log_end_epoch: Epoch | None
    """Leader epoch of the first poll that showed this log end offset."""
    lag: int | None
    """Records of the leader's log that the replica has not fetched."""
    last_fetch_timestamp_ms: Millis | None
    """When the replica last fetched, by the leader's clock."""
    last_caught_up_timestamp_ms: Millis | None
    """When the replica was last caught up, by the leader's clock."""
    status: ReplicaRole
    """Leader, Follower or Observer."""
    fetch_age_ms: Millis | None
    """Time from the replica's last fetch to the poll, by the leader's clock."""
    lag_time_ms: Millis | None
    """Time from when the replica was last caught up to the poll, by the leader's clock."""
    following: Following
    """Whether the replica fetches from the leader."""
    committed_voter: bool | None
    """Whether the committed voter set holds it; null where that set is unknown."""
    endpoint: str | None
    """HOST:PORT that the VotersRecord names for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCounts:
    """Registered and fenced brokers."""

    registered: int
    """Number of registered brokers."""
    fenced: tuple[NodeId, ...]
    """Node ids of the registered brokers that are fenced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionStatus:
    """A LeaderChangeMessage of the metadata log."""

    leader_id: NodeId
    """The elected controller."""
    leader_epoch: Epoch
    """Its leader epoch."""
    voter_ids: tuple[NodeId, ...] = ()
    """The voters of its voter set."""
    granting_voter_ids: tuple[NodeId, ...] = ()
    """The voters that voted for it."""
    offset: Offset
    """Offset of the LeaderChangeMessage."""
    at_ms: Annotated[UtcTime, Field(alias="at")]
    """When it was written, by the controllers' clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterChangeStatus:
    """A VotersRecord of the metadata log, compared with the one before it."""

    added: tuple[ReplicaKey, ...]
    """Voters that it added."""
    removed: tuple[ReplicaKey, ...]
    """Voters that it removed."""
    moved: tuple[NodeId, ...]
    """Voters whose endpoints it changed."""
    leader_epoch: Epoch
    """Leader epoch of its batch."""
    offset: Offset
    """Its offset."""
    at_ms: Annotated[UtcTime, Field(alias="at")]
    """When it was written, by the controllers' clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcedReconfigurationStatus:
    """Two consecutive VotersRecords that differ by more than one voter: AddRaftVoter and RemoveRaftVoter change one."""

    at_ms: Millis
    """When the second VotersRecord was written, by the controllers' clock."""
    offset: Offset
    """Offset of the second VotersRecord."""
    before: tuple[NodeId, ...]
    """Node ids of the voters in the first record."""
    after: tuple[NodeId, ...]
    """Node ids of the voters in the second record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStartStatus:
    """The registration that a controller writes at its start."""

    at_ms: Millis
    """When it was written, by the controllers' clock."""
    offset: Offset
    """Offset of the registration."""
    id: NodeId
    """Node id of the controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElectionStatus:
    """Unclean leader elections of one topic."""

    topic: str | None
    """Topic name; null where the log does not hold it."""
    topic_id: str
    """Topic id."""
    elections: int
    """Number of elections."""
    first_at_ms: Millis
    """When the first one was written, by the controllers' clock."""
    last_at_ms: Millis
    """When the last one was written, by the controllers' clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveringPartition:
    """A partition whose LeaderRecoveryState is RECOVERING (KIP-704)."""

    topic: str | None
    """Topic name; null where the log does not hold it."""
    topic_id: str
    """Topic id."""
    partition: int
    """Partition number."""
    since_ms: Annotated[UtcTime, Field(alias="since")]
    """When the state was written, by the controllers' clock."""
    since_offset: Offset
    """Offset of the record that set the state."""
    at_least: bool
    """The partition was RECOVERING already at `since`: the beginning is unknown."""
    for_ms: Millis | None
    """Time from `since` to the newest record of the log."""
    leader: NodeId | None
    """Node id of the leader; null where the partition has none."""
    leader_epoch: int | None
    """The partition's leader epoch; null where the log does not hold it."""
    partition_epoch: int | None
    """The partition's partition epoch; null where the log does not hold it."""
    leader_changes: int
    """Number of other leaders since the unclean election."""
    isr: tuple[NodeId, ...]
    """In-sync replicas."""
    replicas: tuple[NodeId, ...]
    """Assigned replicas."""
    replicas_alive: tuple[NodeId, ...]
    """Assigned replicas whose broker is registered and not fenced."""
    previous_isr: tuple[NodeId, ...] | None
    """In-sync replicas before the unclean election; null where the log does not hold them."""
    previous_elr: tuple[NodeId, ...] | None
    """Eligible leader replicas (KIP-966) before the unclean election; null where the log does not hold them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecovery:
    """The recovering partitions of one topic."""

    topic: str | None
    """Topic name; null where the log does not hold it."""
    topic_id: str
    """Topic id."""
    since_ms: Millis
    """Since when the topic's oldest recovering partition is RECOVERING, by the controllers' clock."""
    at_least: bool
    """That partition was RECOVERING already at `since_ms`: the beginning is unknown."""
    partitions: int
    """Number of recovering partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStateFile:
    """The file `quorum-state`: the node's last election."""

    version: int
    """Version of the file format."""
    leader_epoch: Epoch
    """The newest leader epoch that the node knows."""
    leader_id: NodeId | None
    """The leader of that epoch; null where the node knows none."""
    voted_id: NodeId | None
    """The candidate that the node voted for; null where it did not vote."""
    voted_directory_id: DirectoryId | None
    """Directory id of that candidate."""
    static_voters: tuple[NodeId, ...]
    """Voters by the node's configuration; empty in a dynamic quorum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VotersRecordStatus:
    """A voter set that the directory holds."""

    offset: Offset
    """Offset of the VotersRecord; -1 for the set that the directory was formatted with."""
    leader_epoch: Epoch | None
    """Leader epoch of its batch."""
    written_at_ms: Annotated[UtcTime | None, Field(alias="written_at")]
    """When it was written, by the controllers' clock."""
    file: str
    """The segment or snapshot that holds it."""
    in_snapshot: bool
    """Whether that file is a snapshot."""
    voters: tuple[VoterEndpoints, ...]
    """The voters, by node id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadBytes:
    """Bytes of a torn or damaged file."""

    file: str
    """File name."""
    position: int
    """Byte at which the damage begins."""
    size: Annotated[int, Field(alias="bytes")]
    """Number of bytes that were not read."""
    reason: str
    """What is wrong, as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirStatus:
    """What a metadata log directory holds beside the quorum's state."""

    folder: str
    """Path of the directory."""
    node_id: NodeId | None
    """node.id in meta.properties."""
    directory_id: DirectoryId | None
    """directory.id in meta.properties."""
    quorum_state: QuorumStateFile | None
    """The file `quorum-state`; null where it cannot be read."""
    snapshot: str | None
    """The snapshot that the state was read from, before the log."""
    committed_below: Offset | None
    """Records below this offset are committed, by that snapshot; null where the state was read from the log alone."""
    first_offset: Offset
    """Offset of the first record that was read from the log."""
    log_end_offset: Offset
    """The offset after the last record that was read."""
    last_epoch: Epoch | None
    """Leader epoch of the last record that was read."""
    whole: bool
    """The state includes everything since the log's beginning."""
    voter_sets: tuple[VotersRecordStatus, ...]
    """Every voter set in the directory, oldest first."""
    not_read: tuple[UnreadBytes, ...]
    """Where files are torn or damaged."""
