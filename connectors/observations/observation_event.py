"""Events of polls, probes, failed observations and audits.

They carry no time of their own: their time is `observed_at_ms` of the observation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from connectors.observations.observation import ObservationKind
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, NodeId, Offset
from rules.model.monitoring import (
    Answer,
    Connection,
    LeaderLog,
    ObservationSource,
    Reason,
    Resolution,
    ServerCertificate,
)
from rules.model.poll import Replica


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEndpoints:
    """A node and its listeners, as DescribeQuorum v2 lists them."""

    id: NodeId
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumPolled:
    """An answered DescribeQuorum request."""

    cluster_id: str | None
    endpoint: str
    """HOST:PORT of the node that answered."""
    leader_id: NodeId
    leader_epoch: Epoch
    high_watermark: Offset | None
    voters: tuple[Replica, ...]
    observers: tuple[Replica, ...]
    nodes: tuple[NodeEndpoints, ...]
    type: Literal["quorum-polled"] = "quorum-polled"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointProbed:
    """One probe of one endpoint: DNS resolution, connection, and who answered."""

    node: NodeId
    endpoint: Endpoint
    resolution: Resolution
    addresses: tuple[str, ...]
    connection: Connection
    answer: Answer
    answered_by: NodeId | None
    detail: str
    certificate: ServerCertificate | None = None
    """None without TLS, or if none was presented."""
    type: Literal["endpoint-probed"] = "endpoint-probed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderViewPolled:
    """One controller's answer to the question which node leads."""

    endpoint: str
    """HOST:PORT that was polled."""
    node: NodeId | None
    """The node of that endpoint, if known."""
    this_cluster: bool
    """False: the controller answered INCONSISTENT_CLUSTER_ID and nothing else."""
    leader_id: NodeId | None
    leader_epoch: Epoch | None
    log: LeaderLog | None
    """The controller's log, if it is the leader itself."""
    type: Literal["leader-view-polled"] = "leader-view-polled"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationFailed:
    """A failed poll, probe or fetch, and the reason. `detail` never holds a secret."""

    source: ObservationSource
    endpoint: str
    reason: Reason
    detail: str
    node: NodeId | None = None
    """The node of that endpoint, if known."""
    directory_id: DirectoryId | None = None
    type: Literal["observation-failed"] = "observation-failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenContract:
    """A data contract that some rows of a sample violate. `example` never holds a secret."""

    contract: str
    promise: str
    grave: bool
    """A violation of this contract is critical."""
    rows: int
    example: str
    sequence: int | None
    """The example's sequence in the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationsAudited:
    """The result of checking a sample of one cluster's rows against the data contracts."""

    rows: int
    """Number of rows that were checked."""
    first_sequence: int
    last_sequence: int
    broken: tuple[BrokenContract, ...]
    type: Literal["audited"] = "audited"


ObservationEvent: TypeAlias = QuorumPolled | EndpointProbed | LeaderViewPolled | ObservationFailed | ObservationsAudited
"""What an observation holds that is not of the metadata log."""

EVENT_OF_KIND: Mapping[ObservationKind, type[ObservationEvent]] = {
    ObservationKind.QUORUM: QuorumPolled,
    ObservationKind.PROBE: EndpointProbed,
    ObservationKind.VIEW: LeaderViewPolled,
    ObservationKind.FAILED: ObservationFailed,
    ObservationKind.AUDIT: ObservationsAudited,
}
"""The register of these kinds: the payload of such an observation is the JSON form of its event."""
