"""Who belongs to the cluster by its log: the committed voters (KIP-853), and the registered controllers and brokers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPosition:
    """A record's offset, the leader epoch of its batch, and its timestamp by the log's clock."""

    offset: Offset
    leader_epoch: Epoch
    timestamp_ms: Millis
    snapshot: bool = False
    """The record is from a `.checkpoint`: the offset counts within the snapshot file, not in the log."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FeatureRange:
    """The levels of one feature (KIP-584), such as `metadata.version`, that a node supports."""

    name: str
    """Name of the feature."""
    lowest: int
    """The lowest level that is supported."""
    highest: int
    """The highest level that is supported."""

    def __str__(self) -> str:
        """Returns `metadata.version 7-30`."""
        return f"{self.name} {self.lowest}-{self.highest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistration:
    """A RegisterControllerRecord: a controller writes it at every start, with its current endpoints."""

    at: RecordPosition
    id: NodeId
    incarnation_id: str
    endpoints: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...] = ()
    """The supported levels."""
    features_since_timestamp_ms: Millis | None = None
    """Timestamp of the registration that first contained these features: a restart with the same ones keeps it.

    From a snapshot: its last contained timestamp, that is "at least since".
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A broker by the log: its RegisterBrokerRecord, and whether it is fenced or shutting down."""

    at: RecordPosition
    id: NodeId
    incarnation_id: str
    endpoints: tuple[Endpoint, ...]
    fenced: bool
    in_controlled_shutdown: bool
    alive_since_timestamp_ms: Millis | None = None
    """Timestamp of the record that last made the broker alive (unfenced, by its registration or by a change).

    Replay sets it from the batch timestamp of the record that changed `fenced` from True (or from not registered) to
    False. It stays while the broker is unfenced, and is None while it is fenced. From a snapshot: the snapshot's last
    contained timestamp, that is "at least since". None also if unknown.
    """
    leaving_since_timestamp_ms: Millis | None = None
    """Timestamp of the record with which its controlled shutdown began; None while it is in none.

    From a snapshot: its last contained timestamp, that is "at least since".
    """
    features: tuple[FeatureRange, ...] = ()
    """The supported levels, as in a controller's registration."""
    features_since_timestamp_ms: Millis | None = None
    log_dirs: tuple[DirectoryId, ...] = ()
    """The ids of its log directories that are online (KIP-858); empty if the log has none, as before Kafka 3.7."""
    zookeeper_mode: bool = False
    """Whether it registered in ZooKeeper mode, for a migration (KIP-866): in KRaft mode it registers again."""
    rack: str | None = None
    """Its `broker.rack`; None if it has none."""
    former_rack: str | None = None
    """The rack with which it was registered before; None if it had none, has that one again, or it is not known."""
    rack_since_timestamp_ms: Millis | None = None
    """Timestamp of the registration that first had this rack; from a snapshot, as of the features. None without one."""
    producer_id_blocks: int = 0
    """How many blocks of 1,000 producer ids it was seen to ask for since it registered."""
    broker_epoch: int | None = None
    """Kafka's epoch of this registration: a record that changes or ends it must name the same."""

    @property
    def alive(self) -> bool:
        """Whether the broker is unfenced: the active controller receives its heartbeats."""
        return not self.fenced


MOST_VOTERS = 100
"""More voters than any quorum has: a VotersRecord or a poll that names more is refused. Kafka recommends 3 or 5."""


def majority(voters: int) -> int:
    """Returns how many of so many voters win an election and commit a record."""
    return voters // 2 + 1


def tolerated_failures(voters: int) -> int:
    """Returns how many of so many voters may fail while the others are still a majority."""
    return max(0, voters - majority(voters))


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """One voter of a VotersRecord. Invariant: the first endpoint is the one that other voters dial."""

    key: ReplicaKey
    """Node id and directory id."""
    endpoints: tuple[Endpoint, ...]
    """The endpoints in the VotersRecord."""
    kraft_versions: FeatureRange | None = field(default=None, compare=False)
    """The kraft.versions that it supports."""

    @property
    def endpoint(self) -> Endpoint | None:
        """The endpoint that other voters dial; None if the VotersRecord names none."""
        return self.endpoints[0] if self.endpoints else None


@dataclass(frozen=True, kw_only=True)
class VoterSet:
    """A committed VotersRecord and its place in the log.

    Without slots: what is derived from the voters is kept, because each rule looks up each voter.
    """

    voters: tuple[Voter, ...]
    """The voters."""
    offset: Offset
    """Offset of the VotersRecord; -1 for the set that a directory was formatted with."""
    leader_epoch: Epoch | None
    """Leader epoch of its batch."""
    timestamp_ms: Millis | None
    """When it was written, by the controllers' clock."""

    @property
    def majority(self) -> int:
        """How many votes win an election, and how many replicas commit a record."""
        return majority(len(self.voters))

    @cached_property
    def ids(self) -> frozenset[NodeId]:
        """The voters' node ids."""
        return frozenset(voter.key.id for voter in self.voters)

    @cached_property
    def keys(self) -> frozenset[ReplicaKey]:
        """The voters' (id, directory id) pairs."""
        return frozenset(voter.key for voter in self.voters)

    @cached_property
    def _by_id(self) -> Mapping[NodeId, Voter]:
        return {voter.key.id: voter for voter in reversed(self.voters)}

    def by_id(self, node: NodeId) -> Voter | None:
        """Returns the voter with this node id, or None: Kafka allows one directory per id."""
        return self._by_id.get(node)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterRemoval:
    """A replica that a committed VotersRecord no longer lists."""

    key: ReplicaKey
    removed_at_ms: Millis
    """When the gatherer first observed the voter set without it."""


def is_same_quorum(one: frozenset[ReplicaKey], other: frozenset[ReplicaKey]) -> bool:
    """Returns whether two voter sets can be of one quorum, earlier and later, in either order.

    Voters are added and removed one at a time (KIP-853), and a forced change keeps one of them: they have a voter in
    common. Without directory ids (kraft.version 0) a node id says less: most of them must be in both.
    """
    if all(key.directory_id is not None for key in (*one, *other)):
        return not one.isdisjoint(other)
    ids, others = ({key.id for key in keys} for keys in (one, other))
    return len(ids & others) >= majority(max(len(ids), len(others)))
