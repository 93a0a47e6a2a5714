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
from enum import StrEnum
from typing import NewType

NodeId = NewType("NodeId", int)
"""A controller's or broker's `node.id`."""
Epoch = NewType("Epoch", int)
"""A leader epoch (Raft's term)."""
Offset = NewType("Offset", int)
"""A position in `__cluster_metadata-0`."""
DirectoryId = NewType("DirectoryId", str)
"""The UUID of a metadata log directory (KIP-853), 22 characters of URL-safe base64 as Kafka prints it."""
TopicId = NewType("TopicId", str)
"""A topic's UUID, 22 characters of URL-safe base64 as Kafka prints it."""
Millis = NewType("Millis", int)
"""Milliseconds: since the Unix epoch where the name ends in `_at_ms` or `timestamp_ms`, else a duration."""


def host_and_port(host: str, port: int) -> str:
    """HOST:PORT as Kafka writes and takes it: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_of(address: str) -> str:
    """The host of such a HOST:PORT, without brackets."""
    return address.rpartition(":")[0].removeprefix("[").removesuffix("]")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Endpoint:
    """Where a listener says it can be reached."""

    listener: str
    host: str
    port: int
    protocol: str | None = field(default=None, compare=False)
    """What is spoken there, such as SASL_SSL: registrations tell it, VotersRecord and DescribeQuorum do not."""

    def __str__(self) -> str:
        """HOST:PORT, as Kafka's tools take it."""
        return host_and_port(self.host, self.port)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ReplicaKey:
    """Who a replica is (KIP-853): a node *and* the directory its log lives in; None before Kafka 3.9."""

    id: NodeId
    directory_id: DirectoryId | None = None

    def __str__(self) -> str:
        """`2-Ab3...` with a directory id, `2` without."""
        return f"{self.id}" if self.directory_id is None else f"{self.id}-{self.directory_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """One voter of a VotersRecord. Invariant: the first endpoint is the one other voters dial."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterSet:
    """A committed VotersRecord, whole, and where it stands in the log."""

    voters: tuple[Voter, ...]
    offset: Offset
    leader_epoch: Epoch | None
    timestamp_ms: Millis | None

    @property
    def majority(self) -> int:
        """Votes that win an election, and replicas that commit a record."""
        return len(self.voters) // 2 + 1

    @property
    def ids(self) -> frozenset[NodeId]:
        """The voters' node ids."""
        return frozenset(voter.key.id for voter in self.voters)

    @property
    def keys(self) -> frozenset[ReplicaKey]:
        """The voters' (id, directory id) pairs."""
        return frozenset(voter.key for voter in self.voters)

    def by_id(self, node: NodeId) -> Voter | None:
        """The voter with this node id (Kafka allows one directory per id), or None."""
        return next((voter for voter in self.voters if voter.key.id == node), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterRemoval:
    """A replica that a committed VotersRecord no longer lists."""

    key: ReplicaKey
    removed_at_ms: Millis
    """When the gatherer first showed us the set without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A voter's or observer's row in DescribeQuorum: the leader's view of it. Times are the leader's clock."""

    key: ReplicaKey
    log_end_offset: Offset | None
    last_fetch_ms: Millis | None
    last_caught_up_ms: Millis | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """One answered DescribeQuorum. `voters` is the leader's latest set: it may hold an uncommitted change."""

    observed_at_ms: Millis
    leader_id: NodeId
    leader_epoch: Epoch
    high_watermark: Offset | None
    voters: tuple[Replica, ...]
    observers: tuple[Replica, ...]
    nodes: Mapping[NodeId, tuple[Endpoint, ...]] = field(default_factory=dict)

    @property
    def leader(self) -> Replica | None:
        """The leader's own row: the only clock the other rows may be compared with."""
        rows = (*self.voters, *self.observers)
        return next((row for row in rows if row.key.id == self.leader_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSample:
    """One replica's progress at one poll. `lag_ms` is 0 when it had caught up with the leader's end then."""

    observed_at_ms: Millis
    lag: int | None
    """Records behind the leader's log end offset."""
    lag_ms: Millis | None
    """Leader's last_caught_up (its own clock, that is its now) minus this replica's last_caught_up."""
    fetch_age_ms: Millis | None
    """Leader's last_fetch (its now) minus this replica's last_fetch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaHistory:
    """What the polls showed of one replica: a bounded window, newest last (Burrow's way of judging lag)."""

    key: ReplicaKey
    first_seen_at_ms: Millis
    last_seen_at_ms: Millis
    last_log_end_offset: Offset | None
    last_leader_epoch: Epoch
    """The leader epoch of the first poll that showed `last_log_end_offset`.

    Filled by replay: both change together, and only when a poll shows a log end offset (not None) that
    differs from the remembered one. So a voter that fell silent keeps the epoch its log really ended in,
    however many elections the others hold since.
    """
    samples: tuple[LagSample, ...]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FeatureRange:
    """The levels of one feature (KIP-584), such as `metadata.version`, that a node supports."""

    name: str
    lowest: int
    highest: int

    def __str__(self) -> str:
        """`metadata.version 7-30`."""
        return f"{self.name} {self.lowest}-{self.highest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistration:
    """A RegisterControllerRecord: written at every controller start with its current endpoints."""

    id: NodeId
    incarnation_id: str
    endpoints: tuple[Endpoint, ...]
    offset: Offset
    timestamp_ms: Millis | None
    features: tuple[FeatureRange, ...] | None = None
    """What it supports; None = not known: a state of before this was kept, until the controller registers again."""
    features_since_timestamp_ms: Millis | None = None
    """Log time of the registration that first told these features: a restart with the same ones keeps it.

    From a snapshot: its last contained timestamp, that is "at least since".
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A broker as the log knows it: registered, fenced or not, shutting down or not."""

    id: NodeId
    incarnation_id: str
    endpoints: tuple[Endpoint, ...]
    fenced: bool
    in_controlled_shutdown: bool
    offset: Offset
    alive_since_timestamp_ms: Millis | None = None
    """Log time of the record that last made it alive (unfenced, by its registration or by a change).

    Filled by replay: the batch timestamp of the record that turned `fenced` from True (or from not
    registered) to False; kept while it stays unfenced, None while it is fenced. From a snapshot: the
    snapshot's last contained timestamp, that is "at least since". None also when it is not known.
    """
    features: tuple[FeatureRange, ...] | None = None
    """What it supports, as with a controller's registration."""
    features_since_timestamp_ms: Millis | None = None

    @property
    def alive(self) -> bool:
        """Unfenced: the active controller hears its heartbeats."""
        return not self.fenced


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """A partition's LeaderRecoveryState is RECOVERING (KIP-704), and since when by the log's own time."""

    topic_id: TopicId
    topic: str | None
    partition: int
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId | None
    since_offset: Offset
    since_timestamp_ms: Millis
    at_least: bool
    """True when a snapshot showed it: it stood already at `since_timestamp_ms`, perhaps long before."""
    previous_isr: tuple[NodeId, ...] | None
    """The in-sync replicas before the unclean election; None when the log no longer tells.

    After a second unclean election meanwhile, those before either: records that only they acknowledged may be lost.
    """
    previous_elr: tuple[NodeId, ...] | None
    """The eligible leader replicas (KIP-966) before the unclean election; None when the log no longer tells."""
    added: tuple[NodeId, ...] = ()
    """Replicas that a reassignment gave it since: they must copy all of it before they can join."""
    added_timestamp_ms: Millis | None = None
    """The log's time of the record that last added one."""
    leader_epoch: int | None = None
    """The partition's leader epoch; None when the log no longer tells, as for its partition epoch."""
    partition_epoch: int | None = None
    leader_changes: int = 0
    """How often the log named another leader since: each was elected uncleanly as well, or the same came back."""
    elected: bool | None = None
    """Whether the record that began it also named another leader, as an unclean election does; None when none tells:
    a snapshot and a PartitionRecord carry the state over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectedRecovered:
    """A RECOVERING partition whose recovery ended in the very record that gave it another leader.

    The leader ends recovery, by an AlterPartition that names no other one; so nobody recovered (KIP-704). The end of a
    reassignment, which may move the leader with the same record, is none.
    """

    topic_id: TopicId
    topic: str | None
    partition: int
    leader: NodeId
    previous_leader: NodeId | None
    offset: Offset
    timestamp_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """A LeaderChangeMessage: somebody won, by the log's own time."""

    leader_id: NodeId
    leader_epoch: Epoch
    offset: Offset
    timestamp_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStart:
    """A RegisterControllerRecord with an incarnation that was not known: a controller process began."""

    id: NodeId
    offset: Offset
    timestamp_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterSetChange:
    """A VotersRecord that followed another one in the log, as the difference of the two."""

    added: tuple[ReplicaKey, ...]
    removed: tuple[ReplicaKey, ...]
    moved: tuple[NodeId, ...]
    """Whose endpoints were rewritten."""
    offset: Offset
    leader_epoch: Epoch
    timestamp_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfiguration:
    """Two VotersRecords that followed each other in the log and differ by more than one voter.

    Kafka's own add and remove change one voter a record (KIP-853), so this was forced, by disaster recovery for one.
    """

    before: tuple[ReplicaKey, ...]
    after: tuple[ReplicaKey, ...]
    offset: Offset
    leader_epoch: Epoch
    timestamp_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElections:
    """The unclean elections of one topic's partitions (KIP-704) that are remembered, by the log's own time."""

    topic_id: TopicId
    topic: str | None
    elections: int
    partitions: tuple[int, ...]
    """Which partitions, in order; bounded by replay."""
    leaders: tuple[NodeId, ...]
    """Who was elected, in order."""
    passed_over: tuple[NodeId, ...]
    """Who was in sync, or eligible (KIP-966), before and was not elected, in order; empty where nothing tells."""
    first_timestamp_ms: Millis
    last_timestamp_ms: Millis
    last_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What happened lately, as the log told it record by record. Oldest first, bounded by replay.

    History and no state: a snapshot tells none of it, so whoever begins with one knows only what came after.
    """

    elections: tuple[Election, ...] = ()
    starts: tuple[ControllerStart, ...] = ()
    reconfigurations: tuple[Reconfiguration, ...] = ()
    unclean: tuple[UncleanElections, ...] = ()
    elected_recovered: tuple[ElectedRecovered, ...] = ()
    voter_changes: tuple[VoterSetChange, ...] = ()
    """However long ago: they are few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A metadata transaction (KIP-868) that began and has no end record yet: what it holds does not count."""

    name: str | None
    since_offset: Offset
    since_timestamp_ms: Millis
    records: int
    """How many of the records it holds we keep back: those that would change what we know."""


class Resolution(StrEnum):
    """What the name service said of an endpoint's host, from where the monitor stands."""

    RESOLVED = "resolved"
    NAME_GONE = "name-gone"
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


class Sight(StrEnum):
    """What the gatherer was trying to see."""

    LOG = "log"
    """Fetch or FetchSnapshot of `__cluster_metadata`."""
    QUORUM = "quorum"
    """DescribeQuorum."""
    PROBE = "probe"
    VIEW = "view"
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


LEADS_NOT = frozenset({Reason.NO_LEADER, Reason.NOT_READY})
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
class View:
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
class Failure:
    """The newest failed attempt to see one thing at one place."""

    sight: Sight
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
class Violation:
    """An invariant that was broken once: no later answer takes it back."""

    invariant: Invariant
    epoch: Epoch
    """The epoch of the answer or record that broke it."""
    detail: str
    observed_at_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
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
    past: Past = field(default_factory=Past)
    probes: Mapping[str, Probe] = field(default_factory=dict)
    """The newest probe of each (node, endpoint), keyed `NODE@HOST:PORT`."""
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What each probed host name last resolved to: what a vanished name has to be given back.

    Filled by replay from probes with `Resolution.RESOLVED`; a host's entry stays when its name is gone, and when
    nobody looked for long, and goes when no voter, registration or node of the quorum names that host any more.
    """
    views: Mapping[str, View] = field(default_factory=dict)
    """What each controller last said of who leads, by the HOST:PORT that was asked."""
    failures: tuple[Failure, ...] = ()
    """Attempts that fail now: an entry goes as soon as its sight at its endpoint succeeds again."""
    violations: tuple[Violation, ...] = ()
    """Raft's promises that were broken, oldest first. Bounded by replay."""
    breaches: tuple[Breach, ...] = ()
    """Data contracts that were broken lately, one entry a contract, oldest first. Bounded by replay."""
    bootstrap: tuple[str, ...] = ()
    """HOST:PORT of each configured controller (or broker)."""
