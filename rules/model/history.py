"""Elections, interruptions, voter set changes, unclean elections and recoveries, with the timestamps of the log."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey, TopicId
from rules.model.membership import BrokerRegistration


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """A partition whose LeaderRecoveryState is RECOVERING (KIP-704), and since when by the log's timestamps."""

    topic_id: TopicId
    """Topic id."""
    topic: str | None
    """Topic name; None if the log does not contain it."""
    partition: int
    """Partition number."""
    replicas: tuple[NodeId, ...]
    """Assigned replicas."""
    isr: tuple[NodeId, ...]
    """In-sync replicas."""
    leader: NodeId | None
    """Node id of the leader; None if the partition has none."""
    since_offset: Offset
    """Offset of the record that set the state."""
    since_timestamp_ms: Millis
    """When the state was written, by the controllers' clock."""
    at_least: bool
    """True if a snapshot contains the state: it began at `since_timestamp_ms` or long before."""
    previous_isr: tuple[NodeId, ...] | None
    """The in-sync replicas before the unclean election; None if the log no longer contains them.

    After a second unclean election: those before either. Records that only they acknowledged may be lost. Empty, as
    `previous_elr`, if the ELR of a partition without a leader was cleared: the log does not show them then.
    """
    previous_elr: tuple[NodeId, ...] | None
    """The eligible leader replicas (KIP-966) before the unclean election; None if the log no longer contains them.

    The last known ones if no replica was in sync or eligible.
    """
    last_leader: bool = False
    """Whether the elected replica had led last, or is the only one: no other replica's records are lost (KIP-966)."""
    added: tuple[NodeId, ...] = ()
    """Replicas that a reassignment added since: they must copy the whole partition before they can join."""
    added_timestamp_ms: Millis | None = None
    """The timestamp of the record that last added one."""
    leader_epoch: int | None = None
    """The partition's leader epoch; None if the log no longer contains it."""
    partition_epoch: int | None = None
    """The partition's partition epoch; None if the log no longer contains it."""
    leader_changes: int = 0
    """How often the log recorded another leader since: each was elected uncleanly too, or the same one came back."""
    elected: bool | None = None
    """Whether the record that began the state also set another leader, as an unclean election does.

    None if unknown: a snapshot and a PartitionRecord only carry the state over.
    """
    emptied: bool = False
    """Whether the elected replica had been created again in another log directory: see EmptiedReplicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartition:
    """One partition of a topic; the name is None until its TopicRecord is read."""

    topic_id: TopicId
    topic: str | None
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition that is moved to other replicas (KIP-455), and since when by the log's timestamps."""

    topic_id: TopicId
    topic: str | None
    partition: int
    adding: tuple[NodeId, ...]
    """They copy the partition. It ends when all of them are in sync."""
    removing: tuple[NodeId, ...]
    since_timestamp_ms: Millis
    at_least: bool
    """True if a snapshot contains the state: it began at `since_timestamp_ms` or long before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """The settings of a topic, of a broker, or of all brokers that slow replication down (KIP-73)."""

    topic: str | None = None
    broker: NodeId | None = None
    """None, as `topic`: the default of all brokers."""
    settings: tuple[str, ...]
    """Their names, sorted."""


class ZkMigrationState(StrEnum):
    """Where a migration from ZooKeeper is (KIP-866)."""

    NONE = "none"
    """The cluster was never in ZooKeeper."""
    PRE_MIGRATION = "pre-migration"
    """The controllers wait for the brokers to register; the metadata is still in ZooKeeper alone."""
    MIGRATION = "migration"
    """The metadata is written to both, until every broker is restarted in KRaft mode, and then every controller."""
    POST_MIGRATION = "post-migration"
    """It has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkMigration:
    """The state of a migration from ZooKeeper, and since when by the log's timestamps."""

    state: ZkMigrationState
    since_timestamp_ms: Millis
    at_least: bool
    """True if a snapshot contains it: it began at `since_timestamp_ms` or long before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSum:
    """Partitions that wait for the same replicas, as a sum: they have no leader, or fewer than min.insync.replicas."""

    holders: tuple[ReplicaKey, ...]
    """Without a leader: the replicas in the ISR and the ELR (KIP-966), or the last known ELR if there are none. Below
    min.insync.replicas: the replicas that are not in sync. Sorted; each with its directory, if the log names it
    (KIP-858).

    Empty if the log names none, as after a ClearElrRecord: then only an unclean election by hand makes a leader.
    """
    partitions: int
    since_timestamp_ms: Millis
    """When the first of them began to, by the timestamps in the log."""
    at_least: bool
    """True if a snapshot contains the state: it began at `since_timestamp_ms` or long before."""
    examples: tuple[TopicPartition, ...]
    """Some of them, sorted; replay bounds their number."""
    others: tuple[tuple[NodeId, int], ...] = ()
    """The brokers of the further replicas, sorted, each with how many of the partitions it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededReplica:
    """Partitions with a leader that need the in-sync replica of a broker, or may need it, as a sum.

    Without it they would have fewer in-sync replicas than min.insync.replicas, or none. Where the log has no
    min.insync.replicas it is not known how many are needed, and all are counted.
    """

    broker: NodeId
    replicas: int
    """How many each of the partitions has."""
    in_sync: int
    """How many of them are in sync, that of the broker included."""
    min_isr: int | None
    """The min.insync.replicas of the topic, or else of the cluster; None: the log has none."""
    eligible: bool
    """Whether they have eligible leader replicas (KIP-966)."""
    partitions: int
    missing: tuple[tuple[NodeId, int], ...] = ()
    """The brokers of the replicas that are not in sync, sorted, each with how many of the partitions it holds."""
    examples: tuple[TopicPartition, ...] = ()
    """Some of them, sorted; replay bounds their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfSyncReplicas:
    """The partitions with a leader of which the replica of a broker is not in sync."""

    broker: NodeId
    partitions: int
    examples: tuple[TopicPartition, ...] = ()
    """Some of them, sorted; replay bounds their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPartitions:
    """The partitions of a broker that is not registered, is fenced, or shuts down."""

    broker: NodeId
    replicas: int
    """How many partitions have a replica on it."""
    leads: int
    """How many it leads."""
    examples: tuple[TopicPartition, ...]
    """Of a broker that is not alive: some that it leads, or if it leads none, that have a replica on it. Sorted.

    None of a fenced broker that leads none: it keeps its replicas.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineDirectory:
    """A log directory that holds replicas and that its broker, which is registered, does not list (KIP-858).

    It is offline: a broker registers the directories that are online, and moves the replicas of one that was removed
    from log.dirs.
    """

    broker: NodeId
    directory_id: DirectoryId
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectedRecovered:
    """A RECOVERING partition whose recovery ended in the record that gave it another leader.

    Only the leader ends a recovery, by an AlterPartition that keeps the leader; so no replica recovered here (KIP-704).
    The end of a reassignment, which may move the leader in the same record, is not such a case.
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
    """A LeaderChangeMessage: a controller won an election, with the log's timestamp."""

    leader_id: NodeId
    """The elected controller."""
    leader_epoch: Epoch
    """Its leader epoch."""
    offset: Offset
    """Offset of the LeaderChangeMessage."""
    timestamp_ms: Millis
    """When it was written, by the controllers' clock."""
    voter_ids: tuple[NodeId, ...] = ()
    """The voters of the leader's voter set then."""
    granting_voter_ids: tuple[NodeId, ...] = ()
    """Those that voted for it."""
    previous_leader_id: NodeId | None = None
    """The winner of the election before; None if the log no longer contains it."""
    previous_epoch: Epoch | None = None
    """Its leader epoch; None if the log no longer contains it."""
    after_ms: Millis | None = None
    """How long before the election the newest batch of an earlier observation was written, by the log's timestamps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStart:
    """A RegisterControllerRecord with an incarnation id not registered before: a controller process started."""

    id: NodeId
    """Node id of the controller."""
    incarnation_id: str
    """Of its process."""
    offset: Offset
    """Offset of the registration."""
    timestamp_ms: Millis
    """When it was written, by the controllers' clock."""
    replaced_incarnation_id: str | None = None
    """The process of the controller that was registered before; None for the first one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSetBack:
    """The clock of a host was set back: what counts with it stands still there until it is as late as it was."""

    controller: NodeId | None
    """The leader on that host; None for the monitor's host."""
    at_ms: Millis
    """When the polls showed it first, by the gatherer's clock."""
    by_ms: int
    """By how much."""
    was_ahead_ms: int
    """By how much it was ahead of the gatherer's clock before."""
    leader_epoch: Epoch
    """The leader epoch then."""
    high_watermark: Offset | None
    """What was committed then: later records were written with the new time."""


class NodeKind(StrEnum):
    """The role in which a node registers."""

    BROKER = "broker"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """A time in which a broker did not serve: from its fencing to its unfencing.

    If the log does not show the fencing (the broker never served, or a snapshot had it as fenced), it begins with the
    first new process that registers, which is its first start.
    """

    id: NodeId
    offset: Offset
    timestamp_ms: Millis
    announced: bool
    """Whether it left by a controlled shutdown."""
    restarted: bool = False
    """Whether its process started again since: it has registered with another incarnation id."""
    replaced_incarnation_id: str | None = None
    """The process that was registered before, if another one has registered since."""
    ended_offset: Offset | None = None
    ended_timestamp_ms: Millis | None = None
    """None while it lasts. The same holds for `ended_offset`."""
    further_starts: tuple[tuple[Offset, Millis], ...] = ()
    """Of a broker that started more than once while it was fenced: its registrations but the first new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unregistration:
    """An UnregisterBrokerRecord or UnregisterControllerRecord: the registration of a node was deleted."""

    kind: NodeKind
    id: NodeId
    offset: Offset
    timestamp_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleRegistration:
    """A process that another one had replaced in the registration of its node id registered again: both run."""

    kind: NodeKind
    id: NodeId
    endpoints: tuple[Endpoint, ...]
    """Those of the process that returned last; `other_endpoints`: those of the one that it replaced."""
    other_endpoints: tuple[Endpoint, ...]
    returns: int
    first_timestamp_ms: Millis
    offset: Offset
    timestamp_ms: Millis
    """Of the newest return, as `offset`."""


REBUILT_EPOCHS: Final = 1_000_000
"""A quorum of the voters that are left begins with the next multiple of this, an epoch that no lost voter has reached.

With an election each second a quorum needs eleven days without a pause to get there by itself.
"""


def is_rebuilt(epoch: Epoch) -> bool:
    """Whether this is the epoch of the snapshot with which such a quorum begins."""
    return epoch > 0 and epoch % REBUILT_EPOCHS == 0


def rebuilt_between(before: Epoch, after: Epoch) -> bool:
    """Whether a quorum of the voters that were left began between these epochs."""
    return after // REBUILT_EPOCHS > before // REBUILT_EPOCHS


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterChange:
    """A VotersRecord that followed another one in the log."""

    before: tuple[ReplicaKey, ...]
    """The voters of the former set."""
    after: tuple[ReplicaKey, ...]
    """The voters of the later set."""
    moved: tuple[NodeId, ...] = ()
    """The voters whose endpoints changed."""
    offset: Offset
    """Offset of the later VotersRecord."""
    leader_epoch: Epoch
    """Leader epoch of its batch."""
    timestamp_ms: Millis
    """When it was written, by the controllers' clock."""

    @property
    def added(self) -> tuple[ReplicaKey, ...]:
        """The voters that are only in the later set."""
        return tuple(key for key in self.after if key not in self.before)

    @property
    def removed(self) -> tuple[ReplicaKey, ...]:
        """The voters that are only in the former set."""
        return tuple(key for key in self.before if key not in self.after)

    @property
    def forced(self) -> bool:
        """Whether no add or remove of Kafka made it: those change one voter at a time (KIP-853)."""
        return self.rebuilt or len(self.added) + len(self.removed) > 1

    @property
    def rebuilt(self) -> bool:
        """Whether `rescue apply --lost` made a quorum of the voters that were left."""
        return is_rebuilt(self.leader_epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftUpgrade:
    """A KRaftVersionRecord that made a static quorum dynamic, which cannot be undone (KIP-853)."""

    version: int
    offset: Offset
    timestamp_ms: Millis
    metadata_version: int | None = None
    """The metadata.version that was finalized together with it, as `--release-version` does (KAFKA-21426)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElections:
    """Unclean elections of one topic's partitions (KIP-704) within a few minutes, with the log's timestamps."""

    topic_id: TopicId
    """Topic id."""
    topic: str | None
    """Topic name; None if the log does not contain it."""
    elections: int
    """Number of elections."""
    partitions: tuple[int, ...]
    """The partitions, sorted; replay bounds their number."""
    leaders: tuple[NodeId, ...]
    """The elected brokers, sorted."""
    passed_over: tuple[NodeId, ...]
    """The brokers that were in sync or eligible (KIP-966) before and were not elected, sorted; empty if unknown.

    All others if the ELR of a partition without a leader was cleared: the log does not show which they were.
    """
    first_timestamp_ms: Millis
    """When the first one was written, by the controllers' clock."""
    last_timestamp_ms: Millis
    """When the last one was written, by the controllers' clock."""
    last_offset: Offset
    """Offset of the record of the last one."""
    last_leaders: int = 0
    """How many of the elections elected the last leader or the only replica: no other replica's records are lost."""
    most_replicas: int = 0
    """The largest number of replicas of the partitions."""
    others: tuple[NodeId, ...] = ()
    """The brokers with further replicas, sorted: if those that were passed over lost their disks, each may have more
    than the elected one."""
    read_timestamp_ms: Millis | None = None
    """The time of the log when the rules first saw the newest election: much later after a gap.

    None if it was seen while the log was read for the first time, or for long.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptiedReplicas:
    """Replicas of one topic that a broker has created again in other log directories (KIP-858), none other being whole.

    It registered without the directories in which they were: they are empty, unless their files were moved. It led
    then, or was the only one in sync or eligible (KIP-966).
    """

    broker: NodeId
    topic_id: TopicId
    topic: str | None
    """Topic name; None if the log does not contain it."""
    partitions: int
    numbers: tuple[int, ...]
    """Some of the partitions, sorted; replay bounds their number."""
    lost: tuple[DirectoryId, ...]
    """The directories in which they were, sorted."""
    directories: tuple[DirectoryId, ...]
    """Those in which they are, sorted."""
    others: tuple[NodeId, ...]
    """The brokers of the other replicas, sorted."""
    registered_offset: Offset
    """Of the broker's registration when it reported the newest of them."""
    offset: Offset
    """Of the first record that has another directory."""
    timestamp_ms: Millis
    """Of the newest one."""
    read_timestamp_ms: Millis | None = None
    """As of UncleanElections."""

    def returned(self, brokers: Mapping[NodeId, BrokerRegistration]) -> bool:
        """Returns whether the broker's newest registration has the former directories."""
        return self.broker in brokers and {*self.lost} <= {*brokers[self.broker].log_dirs}


class RewriteCause(StrEnum):
    """What a record is written again for."""

    PARTITION = "partition"
    """A partition's ISR or leader changes."""
    PRODUCER_IDS = "producer ids"
    """A broker asks for another block of producer ids, since it has given all of the one before to producers."""
    BROKER = "broker"
    """A broker's process registers again, without a restart."""
    CONTROLLER = "controller"
    """The same of a controller's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrites:
    """The records that one cause has written without a pause, with the log's timestamps."""

    cause: RewriteCause
    partition: TopicPartition | None = None
    """Whose ISR or leader changes."""
    nodes: tuple[NodeId, ...]
    """Those that left or joined the ISR with the newest record, or else the former and the new leader; all that asked
    for producer ids, sorted, at most 100; the one that registers."""
    records: int
    since_timestamp_ms: Millis
    """Of the first record."""
    timestamp_ms: Millis
    """Of the newest record."""

    def is_over(self, now_ms: Millis) -> bool:
        """Returns whether a pause has ended it at a time of the log."""
        return abs(now_ms - self.timestamp_ms) > REWRITTEN[self.cause].pause_ms

    @property
    def are_many(self) -> bool:
        """Whether there are more records than a person expects."""
        return self.records >= REWRITTEN[self.cause].records


class Pace(NamedTuple):
    """What ends a series of records of one cause, and how many of them are many."""

    pause_ms: int
    records: int


REWRITTEN: Final[Mapping[RewriteCause, Pace]] = {
    RewriteCause.PARTITION: Pace(300_000, 20),
    RewriteCause.PRODUCER_IDS: Pace(45_000, 20),
    RewriteCause.BROKER: Pace(300_000, 10),
    RewriteCause.CONTROLLER: Pace(300_000, 10),
}
"""The pace at which records are written again and again.

The restart of a broker changes an ISR twice, so three rolling restarts in a row, of all three replicas, change it 18
times. Two blocks a minute are 2,000 new producers: brokers remember each for a day, three million then. A process
registers once, and again only if its log directories or features change.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentHistory:
    """What the log recorded recently, record by record. Oldest first, bounded by replay.

    A snapshot contains state and no history: after a start from a snapshot only later events are known.
    """

    elections: tuple[Election, ...] = ()
    starts: tuple[ControllerStart, ...] = ()
    interruptions: tuple[Interruption, ...] = ()
    double_registrations: tuple[DoubleRegistration, ...] = ()
    """One for each node id."""
    unregistrations: tuple[Unregistration, ...] = ()
    """The newest one is kept for however long."""
    unclean: tuple[UncleanElections, ...] = ()
    elected_recovered: tuple[ElectedRecovered, ...] = ()
    emptied: tuple[EmptiedReplicas, ...] = ()
    """One for each broker and topic."""
    rewrites: tuple[Rewrites, ...] = ()
    """One for each partition, for all producer ids, and for each node; none that a pause has ended."""
    voter_changes: tuple[VoterChange, ...] = ()
    """Not limited by age: voter set changes are rare."""
    kraft_upgrade: KRaftUpgrade | None = None

    @property
    def reconfigurations(self) -> tuple[VoterChange, ...]:
        """The changes of the voters that were forced, for example by disaster recovery."""
        return tuple(change for change in self.voter_changes if change.forced)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A metadata transaction (KIP-868) without an end record: its records are not applied yet."""

    name: str | None
    since_offset: Offset
    since_timestamp_ms: Millis
    records: int
    """How many of its records kraftwatch holds back: those that would change what it knows."""
    starts: tuple[ControllerStart, ...] = ()
    """The controllers that registered in it as another process: they run, whether or not it ends."""
