"""What the monitor itself observes of endpoints, leader views, failed observations and broken promises."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset


class Resolution(StrEnum):
    """What the name service said of an endpoint's host, from where the monitor stands."""

    RESOLVED = "resolved"
    NAME_NOT_FOUND = "name-gone"
    """The resolver answered that no such name exists: counts against the endpoint."""
    RESOLVER_FAILED = "resolver-failed"
    """No answer, or a temporary failure: counts against our sight, never against the endpoint."""


class Connection(StrEnum):
    """What happened to a TCP connection to an endpoint."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    TIMED_OUT = "timed-out"
    UNREACHABLE = "unreachable"
    NOT_TRIED = "not-tried"


class Answer(StrEnum):
    """Who answered behind an accepted connection."""

    THIS_CLUSTER = "this-cluster"
    """A Kafka node of this cluster answered; `answered_by` names it where that could be asked."""
    OTHER_CLUSTER = "other-cluster"
    OTHER_NODE = "other-node"
    """A node of this cluster, but not the one this endpoint should lead to."""
    NOT_KAFKA = "not-kafka"
    NO_ANSWER = "no-answer"
    """Accepted and then silent, or closed."""
    NOT_ALLOWED = "not-allowed"
    """TLS, login or authorization kept us from asking: says nothing against the endpoint."""
    NOT_ASKED = "not-asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One look at one endpoint of one node, from the monitor's vantage point."""

    observed_at_ms: Millis
    node: NodeId
    endpoint: Endpoint
    resolution: Resolution
    addresses: tuple[str, ...]
    connection: Connection
    answer: Answer
    answered_by: NodeId | None = None
    detail: str = ""


def probe_key(node: NodeId, endpoint: Endpoint) -> str:
    """The key of `Quorum.probes`."""
    return f"{node}@{endpoint}"


class ObservationSource(StrEnum):
    """What the gatherer was trying to see."""

    LOG = "log"
    """Fetch or FetchSnapshot of `__cluster_metadata`."""
    QUORUM = "quorum"
    """DescribeQuorum."""
    PROBE = "probe"
    LEADER_VIEW = "view"
    """Who leads, as each controller sees it."""


class Reason(StrEnum):
    """Why an attempt to see something failed."""

    UNRESOLVABLE = "unresolvable"
    RESOLVER_FAILED = "resolver-failed"
    REFUSED = "refused"
    TIMED_OUT = "timed-out"
    UNREACHABLE = "unreachable"
    CLOSED = "closed"
    NO_LEADER = "no-leader"
    """A node answered and said that it knows no leader."""
    NOT_READY = "not-ready"
    """A node answered that its authorizer is not ready: it restarted and knows no leader."""
    DENIED = "denied"
    NOT_AUTHENTICATED = "not-authenticated"
    TLS_FAILED = "tls-failed"
    WRONG_CLUSTER = "wrong-cluster"
    UNSUPPORTED = "unsupported"
    UNDECODABLE = "undecodable"
    METADATA_LOST = "metadata-lost"
    """DivergingEpoch below an offset that was already committed: committed metadata is gone."""
    INTERRUPTED = "interrupted"
    """We ourselves were not looking: the gatherer was restarted."""


NO_LEADER_REASONS = frozenset({Reason.NO_LEADER, Reason.NOT_READY})
"""What a node answers that does not lead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A leader's newest `.checkpoint` (KIP-630)."""

    end_offset: Offset
    epoch: Epoch
    last_contained_timestamp_ms: Millis | None
    """Of its header, by the log's own time; None where it could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderLog:
    """What a leader answered when it was asked for the very beginning of its log."""

    start_offset: Offset | None
    snapshot: Snapshot | None
    """The newest one; None also where there is only the one a disk is formatted with."""
    tells_absence: bool
    """Whether no snapshot means that there is none: Kafka before 3.6 tells of one only when it has cut its log."""
    begins_timestamp_ms: Millis | None
    """The log's time of its first record, where it was answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderView:
    """What one controller said when it was asked who leads."""

    observed_at_ms: Millis
    since_ms: Millis
    """When it first said this leader and epoch, and nothing else since."""
    endpoint: str
    """HOST:PORT that was asked."""
    node: NodeId | None
    """Whose endpoint that is, as far as is known."""
    this_cluster: bool
    """False: a node of another cluster answers there."""
    leader_id: NodeId | None
    """None: it knows none."""
    leader_epoch: Epoch | None
    log: LeaderLog | None
    """Where it leads itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedObservation:
    """The newest failed attempt to observe one data source at one address."""

    # pydantic reads this when it writes and reads the state blob: the stored key of `source` is `sight`.
    __pydantic_config__: ClassVar[Mapping[str, object]] = {
        "alias_generator": lambda name: {"source": "sight"}.get(name, name),
        "serialize_by_alias": True,
    }

    source: ObservationSource
    endpoint: str
    """HOST:PORT that was asked, or empty when none could be."""
    reason: Reason
    detail: str
    first_at_ms: Millis
    """Start of the unbroken run of failures of this sight at this endpoint."""
    last_at_ms: Millis


class Invariant(StrEnum):
    """What Raft promises (KIP-595) and the monitor can hold against what it sees."""

    TWO_LEADERS = "two-leaders"
    """At most one leader an epoch."""
    EPOCH_BACK = "epoch-back"
    """A node's epoch, and the log's, never decrease."""
    HIGH_WATERMARK_BACK = "high-watermark-back"
    """What is committed stays committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantViolation:
    """An invariant that was broken once: no later answer takes it back."""

    invariant: Invariant
    epoch: Epoch
    """The epoch of the answer or record that broke it."""
    detail: str
    observed_at_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractViolation:
    """A data contract that was broken: something recorded, decoded, replayed or told is not what it must be."""

    contract: str
    """Its name, as `kraftwatch audit` lists it."""
    promise: str
    """What it promises, in a sentence."""
    grave: bool
    """Somebody must look now: what the alerts rest on, or a secret, is at stake."""
    rows: int
    """How many rows broke it, as far as counted."""
    first_at_ms: Millis
    last_at_ms: Millis
    """When it was last found broken."""
    example: str
    """One of the rows, in words; never a secret."""
    sequence: int | None = None
    """The example's place in the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How the monitor comes in, as far as a rule may know: no secret."""

    secured: bool = False
    """The listener wants TLS, a login or both: whoever runs a command of Kafka's needs a --command-config there."""
    principal: str | None = None
    """Whom Kafka's authorizer takes the monitor for, such as `User:kraftwatch`; None where only Kafka knows."""
    log: bool = True
    """The metadata log is read. False: polls alone, by choice, which DESCRIBE allows."""


PLAINTEXT = Access()
"""Anybody may come in."""


class Vantage(StrEnum):
    """Where the monitor stands towards the cluster's network and name service."""

    INSIDE = "inside"
    OUTSIDE = "outside"
    """Endpoint verdicts that come from probing alone are capped at warning."""
