"""A KRaft quorum as one frozen value: everything that a rule may use, the newest DescribeQuorum answer in it.

No value here comes from a clock of this process: times are milliseconds since the Unix epoch that came with an
observation. Three clocks appear and are never mixed. Fields named `observed_at_ms` are of the gatherer's clock.
`timestamp_ms` fields are the log's timestamps, written by the controller that led. `last_fetch_ms` and
`last_caught_up_ms` are of the leader's clock and comparable only with the leader's own row.

An absent value is None: -1, the zero UUID and empty strings are converted where bytes are decoded. Names are spelled as
in KIP-595, KIP-836 and KIP-853.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rules.model.ages import DEFAULT_AGES, Ages
from rules.model.history import (
    BrokerPartitions,
    ClockSetBack,
    NeededReplica,
    OfflineDirectory,
    OpenTransaction,
    OutOfSyncReplicas,
    PartitionSum,
    Reassignment,
    RecentHistory,
    Recovery,
    Throttle,
    ZkMigration,
)
from rules.model.identifiers import START, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.membership import BrokerRegistration, ControllerRegistration, Voter, VoterRemoval, VoterSet
from rules.model.monitoring import (
    PLAINTEXT,
    Access,
    ContractViolation,
    FailedObservation,
    InvariantViolation,
    LeaderView,
    Probe,
    UnknownRecordType,
    Vantage,
    probe_key,
)
from rules.model.replica import CommitWait, Poll, ReplicaHistory
from rules.model.unreplayable import UnreplayableRecord
from rules.model.witness import WitnessRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """Everything known of one cluster's metadata quorum at one time.

    Invariant: built only from observations up to `now_ms`; the same observations give the same Quorum.
    """

    cluster: str
    """The cluster's name in the configuration."""
    cluster_id: str | None
    now_ms: Millis
    """observed_at of this cluster's newest row: rules use no other current time."""
    watched_since_ms: Millis = START
    """When the monitor began again to observe after its newest gap; 0 without one.

    What was observed before it is history and not current, however short the gap was.
    """
    ages: Ages = DEFAULT_AGES
    """How old each kind of observation may be."""
    vantage: Vantage = Vantage.INSIDE
    access: Access = PLAINTEXT
    broker_min_isr: int | None = None
    """The min.insync.replicas in the brokers' server.properties, as the configuration of the monitor has it."""
    default_min_isr: int | None = None
    """The min.insync.replicas of topics without one of their own, in the metadata log; None: it has none. With it, the
    brokers' server.properties does not count."""
    kraft_version: int | None = None
    """0 = static quorum (controller.quorum.voters), 1 = dynamic (KIP-853); None = not read from the log yet."""
    metadata_version: int | None = None
    """None, with `log_complete`: no record of the log sets it."""
    features: Mapping[str, int] = field(default_factory=dict)
    """The finalized level of each feature in the log, `metadata.version` among them (KIP-584)."""
    committed: VoterSet | None = None
    """The newest committed VotersRecord; None for a static quorum."""
    leader_id: NodeId | None = None
    """The leader by the newest evidence; None = a majority of addresses reports no leader, or nothing is known."""
    leader_epoch: Epoch | None = None
    high_watermark: Offset | None = None
    high_watermark_since_ms: Millis | None = None
    """When something was last committed, as far as it was observed: a leader that commits nothing does not change it.

    Before anything was: since when a leader is observed. A high watermark is known once a record of the leader's epoch
    is committed.
    """
    last_offset: Offset | None = None
    """The newest committed offset that was applied."""
    log_complete: bool = False
    """Whether the log was read from its first record or from a whole snapshot, and each record of it could be decoded:
    what is not in it does not exist."""
    newest_timestamp_ms: Millis | None = None
    """The current time of the log: the newest batch timestamp, NoOps included, and `idle_ms` later."""
    idle_ms: int = 0
    """How long the polls show that no record followed: without NoOps the log itself does not show that time passes."""
    silent_ms: int | None = None
    """How long the leader had appended no record at the newest poll, by its own clock; 0 for less than 10 s.

    None: it is not known, or the controllers write no NoOps (metadata.max.idle.interval.ms=0): nothing shows it then.
    """
    log_fetched_at_ms: Millis | None = None
    """When a leader last served the log: records or an empty fetch."""
    poll: Poll | None = None
    """The newest DescribeQuorum answer of any age: compare its observed_at_ms with now_ms."""
    histories: Mapping[ReplicaKey, ReplicaHistory] = field(default_factory=dict)
    clocks_set_back: tuple[ClockSetBack, ...] = ()
    """The clocks that are not as late yet as they were, oldest first. Bounded by replay."""
    commit_wait: CommitWait | None = None
    """None: no poll since the newest gap shows it, or a majority is not in sync."""
    removals: tuple[VoterRemoval, ...] = ()
    """Replicas that left the committed set, oldest first.

    Replay keeps one entry per key, its newest removal, and deletes the entry when its *id* is a voter again (with any
    directory), so that an unfinished disk replacement is visible. Bounded by replay.
    """
    controllers: Mapping[NodeId, ControllerRegistration] = field(default_factory=dict)
    brokers: Mapping[NodeId, BrokerRegistration] = field(default_factory=dict)
    recovering: tuple[Recovery, ...] = ()
    offline: tuple[PartitionSum, ...] = ()
    """The partitions without a leader; ordered by `holders`."""
    under_min_isr: tuple[PartitionSum, ...] = ()
    """The partitions with a leader and fewer in-sync replicas than min.insync.replicas, of the topic or else of the
    cluster, as far as the log has it; ordered by `holders`."""
    needed_replicas: tuple[NeededReplica, ...] = ()
    """The partitions that need the in-sync replica of a broker, or may need it; ordered by broker."""
    out_of_sync: Mapping[NodeId, OutOfSyncReplicas] = field(default_factory=dict)
    """The partitions of which the replica of a broker is not in sync, by broker; of one that has any."""
    brokers_down: Mapping[NodeId, BrokerPartitions] = field(default_factory=dict)
    """The partitions of the brokers that are not registered, fenced, or shutting down, if they have any."""
    offline_directories: tuple[OfflineDirectory, ...] = ()
    """Ordered by broker and directory id."""
    reassignments: tuple[Reassignment, ...] = ()
    """Ordered by their beginning; replay bounds their number, and keeps the oldest ones."""
    throttles: tuple[Throttle, ...] = ()
    """What slows replication down: of topics and brokers, ordered by name; replay bounds their number."""
    stricter_min_isrs: Mapping[NodeId, int] = field(default_factory=dict)
    """The min.insync.replicas of the registered brokers that have a greater one of their own than the cluster's: it
    holds for the topics without one that the broker leads, and is not counted in any sum. Ordered by broker."""
    zk_migration: ZkMigration | None = None
    """None: the log has no record of one."""
    open_transaction: OpenTransaction | None = None
    unreplayable: tuple[UnreplayableRecord, ...] = ()
    """The first records that Kafka cannot replay, in the order of the log."""
    history: RecentHistory = field(default_factory=RecentHistory)
    probes: Mapping[str, Probe] = field(default_factory=dict)
    """The newest probe of each (node, endpoint), keyed `NODE@HOST:PORT`."""
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The addresses that each probed host name last resolved to: a name that no longer resolves must get them back.

    Replay sets an entry from probes with `Resolution.RESOLVED`, keeps it when the name stops to resolve or is not
    probed, and deletes it when no voter, registration or node of the quorum uses that host any more.
    """
    leader_views: Mapping[str, LeaderView] = field(default_factory=dict)
    """Each controller's newest report of who leads, by the HOST:PORT that was polled."""
    unanswered_since: Mapping[str, Millis] = field(default_factory=dict)
    """When the first attempt at an address timed out since a node last answered there, by HOST:PORT."""
    late_answers: Mapping[str, Millis] = field(default_factory=dict)
    """When a node last answered late, by HOST:PORT: `LATE_MS` after that or later. Not of a process that refused
    connections since."""
    failures: tuple[FailedObservation, ...] = ()
    """Attempts that fail now: an entry is deleted when an attempt of its source at its endpoint succeeds."""
    invariant_violations: tuple[InvariantViolation, ...] = ()
    """Violations of Raft's invariants, oldest first. Bounded by replay."""
    contract_violations: tuple[ContractViolation, ...] = ()
    """Recent violations of data contracts, one entry per contract, oldest first. Bounded by replay."""
    unknown_records: tuple[UnknownRecordType, ...] = ()
    """Sorted by name; each count is rounded down, so that it does not change with every record."""
    bootstrap: tuple[str, ...] = ()
    """HOST:PORT of each configured controller (or broker)."""
    witnesses: tuple[WitnessRow, ...] = ()
    """What controllers' hosts saw, of any age: the newest row that each reported, and those that people gave."""

    @property
    def voters(self) -> tuple[Voter, ...]:
        """The committed voters; none for a static quorum, and while they are not known."""
        return self.committed.voters if self.committed else ()

    @property
    def voter_ids(self) -> frozenset[NodeId]:
        """The node ids of `voters`."""
        return self.committed.ids if self.committed else frozenset()

    @property
    def voting_ids(self) -> frozenset[NodeId]:
        """The node ids of `voters`, or of the newest poll's where the log has none, as in a static quorum."""
        return self.voter_ids or (self.poll.voter_ids if self.poll else frozenset())

    @property
    def is_static(self) -> bool:
        """Whether the voters are those of controller.quorum.voters; a log before Kafka 3.9 has no kraft.version."""
        return not self.kraft_version

    @property
    def broker_addresses(self) -> set[str]:
        """HOST:PORT of each listener that a broker registered; the controller listener of a combined node is none."""
        return {str(endpoint) for broker in self.brokers.values() for endpoint in broker.endpoints}

    def voter(self, node: NodeId) -> Voter | None:
        """Returns the committed voter with this node id; None if it is no voter."""
        return self.committed.by_id(node) if self.committed else None

    def recorded_endpoint(self, node: NodeId) -> Endpoint | None:
        """Returns the endpoint that the other voters dial; None on a static quorum, or if the node is not a voter."""
        voter = self.voter(node)
        return voter.endpoint if voter else None

    def probe(self, node: NodeId, endpoint: Endpoint | None) -> Probe | None:
        """Returns the newest probe of an endpoint of a node, of any age; None without one."""
        return None if endpoint is None else self.probes.get(probe_key(node, endpoint))

    def is_current(self, observed_at_ms: Millis, age_ms: Millis) -> bool:
        """Returns whether an observation is not older than this, and was made since the newest gap."""
        return self.now_ms - observed_at_ms <= age_ms and observed_at_ms >= self.watched_since_ms
