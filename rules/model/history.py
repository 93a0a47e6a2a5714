"""Elections, voter set changes, unclean elections and recoveries, with the log's own times."""

from dataclasses import dataclass

from rules.model.identifiers import Epoch, Millis, NodeId, Offset, ReplicaKey, TopicId


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
class RecentHistory:
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
