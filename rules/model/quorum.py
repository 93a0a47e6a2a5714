"""The vocabulary: a KRaft quorum as one frozen value, everything a rule may look at.

Nothing here reads a clock: times are milliseconds since the epoch that came in with an observation.
Two clocks appear and are never mixed: fields named `observed_at_ms` are the gatherer's clock;
`timestamp_ms` fields are the log's own time, written by the controller that led; `last_fetch_ms`
and `last_caught_up_ms` are the leader's clock, comparable only with the leader's own row.

Absent is None: -1, the zero UUID and empty strings are converted where bytes become values.
Spelling follows KIP-595 and KIP-853.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rules.model.history import OpenTransaction, RecentHistory, Recovery
from rules.model.identifiers import Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.monitoring import (
    PLAINTEXT,
    Access,
    ContractViolation,
    FailedObservation,
    InvariantViolation,
    LeaderView,
    Probe,
    Vantage,
)
from rules.model.poll import Poll, ReplicaHistory
from rules.model.registration import BrokerRegistration, ControllerRegistration
from rules.model.voter_set import VoterRemoval, VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """Everything known of one cluster's metadata quorum at one moment.

    Invariant: built only from observations up to `now_ms`; the same observations give the same Quorum.
    """

    cluster: str
    """The name it has in the configuration."""
    cluster_id: str | None
    now_ms: Millis
    """observed_at of the newest row of this cluster: the only `now` there is."""
    vantage: Vantage = Vantage.INSIDE
    access: Access = PLAINTEXT
    kraft_version: int | None = None
    """0 = static quorum (controller.quorum.voters), 1 = dynamic (KIP-853); None = the log did not say yet."""
    metadata_version: int | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    """The finalized level of each feature that the log sets, `metadata.version` among them (KIP-584)."""
    committed: VoterSet | None = None
    """The newest committed VotersRecord; None for a static quorum."""
    leader_id: NodeId | None = None
    """Who leads as far as the newest evidence tells; None = somebody said there is none, or nothing is known."""
    leader_epoch: Epoch | None = None
    high_watermark: Offset | None = None
    high_watermark_since_ms: Millis | None = None
    """When an observation first showed this high watermark (or, while it is None, the leader epoch without one)."""
    last_offset: Offset | None = None
    """The newest committed offset that was applied."""
    newest_timestamp_ms: Millis | None = None
    """The newest batch timestamp, NoOps included: what time it is for the log."""
    log_seen_at_ms: Millis | None = None
    """When the log last answered (records or an empty fetch that a leader answered)."""
    poll: Poll | None = None
    """The newest answered DescribeQuorum, however old: compare its observed_at_ms with now_ms."""
    histories: Mapping[ReplicaKey, ReplicaHistory] = field(default_factory=dict)
    removals: tuple[VoterRemoval, ...] = ()
    """Replicas that left the committed set, oldest first.

    Filled by replay: one entry a key, the newest removal of it; an entry goes when its *id* is a voter's
    again (with whatever directory), so that a half-done disk replacement can be seen. Bounded by replay.
    """
    controllers: Mapping[NodeId, ControllerRegistration] = field(default_factory=dict)
    brokers: Mapping[NodeId, BrokerRegistration] = field(default_factory=dict)
    recovering: tuple[Recovery, ...] = ()
    open_transaction: OpenTransaction | None = None
    history: RecentHistory = field(default_factory=RecentHistory)
    probes: Mapping[str, Probe] = field(default_factory=dict)
    """The newest probe of each (node, endpoint), keyed `NODE@HOST:PORT`."""
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What each probed host name last resolved to: what a vanished name has to be given back.

    Filled by replay from probes with `Resolution.RESOLVED`; a host's entry stays when its name is gone, and when
    nobody looked for long, and goes when no voter, registration or node of the quorum names that host any more.
    """
    leader_views: Mapping[str, LeaderView] = field(default_factory=dict)
    """What each controller last said of who leads, by the HOST:PORT that was asked."""
    failures: tuple[FailedObservation, ...] = ()
    """Attempts that fail now: an entry goes as soon as its sight at its endpoint succeeds again."""
    invariant_violations: tuple[InvariantViolation, ...] = ()
    """Raft's promises that were broken, oldest first. Bounded by replay."""
    contract_violations: tuple[ContractViolation, ...] = ()
    """Data contracts that were broken lately, one entry a contract, oldest first. Bounded by replay."""
    bootstrap: tuple[str, ...] = ()
    """HOST:PORT of each configured controller (or broker)."""
