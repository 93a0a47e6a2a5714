"""Voters, observers and their endpoints in a cluster status; how its times are written."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from connectors.sinks.alert_json import from_iso, iso
from rules.analysis.replica_lag import Liveness
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


class EndpointVerdict(StrEnum):
    """Whether a voter's recorded endpoint resolves to that voter and accepts connections."""

    OK = "ok"
    STALE = "stale"
    DOWN = "down"
    UNKNOWN = "unknown"


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
    liveness: Liveness
    """Whether it fetches from the leader."""
    lag_time_ms: Millis | None
    """Time since it was last caught up, by the leader's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterEndpointStatus:
    """The recorded endpoint of one committed voter, and what the newest probe found there."""

    id: NodeId
    """Node id."""
    directory_id: DirectoryId | None
    """Directory id as Kafka prints it."""
    recorded: str | None
    """HOST:PORT in the VotersRecord, of the listener that controllers dial; null where it names none."""
    registered: str | None
    """HOST:PORT of the same listener in the controller's newest registration."""
    verdict: EndpointVerdict
    """ok: the endpoint reaches the voter; stale: it does not; down: it refuses connections and the voter does not
    fetch; unknown: no probe decides it."""
    probe_result: Annotated[str | None, Field(alias="seen")]
    """What the newest probe found at the endpoint, as text."""
    faults: Annotated[tuple[str, ...], Field(alias="flaws")]
    """Why the endpoint is stale: name-gone, leads-elsewhere, registration-differs, refused-while-fetching,
    certificate."""
    liveness: Liveness
    """Whether the voter fetches from the leader."""
    addresses: tuple[str, ...]
    """IP addresses that the recorded host name resolved to."""


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
    liveness: Liveness
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
