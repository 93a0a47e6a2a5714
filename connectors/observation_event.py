"""Events of polls, probes, failed observations and audits.

They carry no time of their own: their time is `observed_at_ms` of the observation.
"""

from dataclasses import dataclass
from typing import Literal

from rules.model.identifiers import DirectoryId, Endpoint, Epoch, NodeId, Offset
from rules.model.monitoring import Answer, Connection, LeaderLog, ObservationSource, Reason, Resolution
from rules.model.poll import Replica


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
class ObservationsAudited:
    """What the audit of a sample says of one cluster's rows."""

    rows: int
    """How many were held against the contracts."""
    first_sequence: int
    last_sequence: int
    broken: tuple[BrokenContract, ...]
    type: Literal["audited"] = "audited"
