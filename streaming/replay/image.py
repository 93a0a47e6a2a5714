"""An Image: everything the log says about the quorum, except the topics, as one frozen value; how records change it.

Kafka calls it MetadataImage. A row of records makes a new image, so the image that rules see does not change. A
VotersRecord is the whole committed set (KIP-853); a voter missing in it was removed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from connectors.observations.log_event import BrokerChanged, UnknownRecords
from rules.model.history import (
    BrokerPartitions,
    NeededReplica,
    OfflineDirectory,
    OutOfSyncReplicas,
    PartitionSum,
    Reassignment,
    RecentHistory,
    Recovery,
    Throttle,
    ZkMigration,
)
from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.membership import (
    BrokerRegistration,
    ControllerRegistration,
    FeatureRange,
    RecordPosition,
    VoterRemoval,
    VoterSet,
)
from rules.model.monitoring import UnknownRecordType
from rules.model.unreplayable import UnreplayableRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The content of the log up to and including `last_offset`."""

    complete: bool = False
    """True if read from the log's first record or from a whole snapshot: what is not in the image does not exist."""
    last_offset: Offset | None = None
    newest_timestamp_ms: Millis | None = None
    kraft_version: int | None = None
    metadata_version: int | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    """The finalized level of each feature (KIP-584)."""
    committed: VoterSet | None = None
    leader_id: NodeId | None = None
    leader_epoch: Epoch | None = None
    controllers: Mapping[NodeId, ControllerRegistration] = field(default_factory=dict)
    brokers: Mapping[NodeId, BrokerRegistration] = field(default_factory=dict)
    recovering: tuple[Recovery, ...] = ()
    offline: tuple[PartitionSum, ...] = ()
    under_min_isr: tuple[PartitionSum, ...] = ()
    needed_replicas: tuple[NeededReplica, ...] = ()
    out_of_sync: tuple[OutOfSyncReplicas, ...] = ()
    brokers_down: tuple[BrokerPartitions, ...] = ()
    min_isr: int | None = None
    broker_min_isrs: Mapping[NodeId, int] = field(default_factory=dict)
    """The min.insync.replicas that is set for one broker."""
    offline_directories: tuple[OfflineDirectory, ...] = ()
    reassignments: tuple[Reassignment, ...] = ()
    throttles: Mapping[str, Throttle] = field(default_factory=dict)
    """By whose they are, in words."""
    grants: Mapping[str, bool] = field(default_factory=dict)
    """The ACLs and credentials, by what tells them from all others; `MORE_GRANTS` of `log`: not all are kept."""
    zk_migration: ZkMigration | None = None
    unknown_records: Mapping[str, UnknownRecordType] = field(default_factory=dict)
    """By the name of their type and version."""
    unreplayable: tuple[UnreplayableRecord, ...] = ()
    """The first ones; none before the log was read from its beginning or from a whole snapshot."""
    lacks_records: bool = False
    """A record could not be read or was refused: what others refer to may be in it."""
    next_producer_id: int | None = None
    history: RecentHistory = field(default_factory=RecentHistory)
    """Events read from the log record by record. A snapshot holds none of them, so they are kept across a snapshot."""

    @property
    def kraft(self) -> int | None:
        """kraft.version. A whole log without a KRaftVersionRecord is version 0, as in Kafka."""
        return 0 if self.kraft_version is None and self.complete else self.kraft_version

    @property
    def endpoints(self) -> set[tuple[NodeId, str]]:
        """Each node with each HOST:PORT that the log lists for it."""
        listed: list[tuple[NodeId, tuple[Endpoint, ...]]] = []
        if self.committed is not None:
            listed += [(voter.key.id, voter.endpoints) for voter in self.committed.voters]
        listed += [(controller.id, controller.endpoints) for controller in self.controllers.values()]
        listed += [(broker.id, broker.endpoints) for broker in self.brokers.values()]
        return {(node, str(endpoint)) for node, endpoints in listed for endpoint in endpoints}


REMOVAL_REMEMBERED_MS = Millis(86_400_000)
"""How long a removal is kept: a disk replacement may stay unfinished overnight."""
REMOVALS_MAX = 64
"""The maximum number of removals that are kept, the newest ones."""

UNKNOWN_MAX = 64
"""The maximum number of unknown types and versions that are counted one by one."""
_FURTHER = "further types"

_Registration = TypeVar("_Registration", BrokerRegistration, ControllerRegistration)


def registered_controller(
    previous: ControllerRegistration | None, event: ControllerRegistration, origin: RecordPosition
) -> ControllerRegistration:
    """Returns the registration after a RegisterControllerRecord: written at every controller start."""
    since_ms = _features_since(previous, event.features, origin)
    return replace(event, at=origin, features_since_timestamp_ms=since_ms)


def with_unknown(known: Mapping[str, UnknownRecordType], event: UnknownRecords) -> dict[str, UnknownRecordType]:
    """Counts records that are not known."""
    name, kafka_class = event.name, event.kafka_class
    if name not in known and len(known) >= UNKNOWN_MAX:
        name, kafka_class = _FURTHER, None
    before = known.get(name)
    counted = (
        UnknownRecordType(name=name, kafka_class=kafka_class, count=event.count, first_offset=event.at.offset)
        if before is None
        else replace(before, count=before.count + event.count)
    )
    return {**known, name: counted}


def registered_broker(
    previous: BrokerRegistration | None, event: BrokerRegistration, origin: RecordPosition
) -> BrokerRegistration:
    """Returns the registration after a RegisterBrokerRecord: it replaces the whole previous one."""
    one = replace(
        event,
        at=origin,
        rack_since_timestamp_ms=None if event.rack is None else origin.timestamp_ms,
        alive_since_timestamp_ms=_alive_since(previous, origin, fenced=event.fenced),
        leaving_since_timestamp_ms=origin.timestamp_ms if event.in_controlled_shutdown else None,
        features_since_timestamp_ms=_features_since(previous, event.features, origin),
    )
    return one if previous is None else _with_known(one, previous)


def _with_known(one: BrokerRegistration, known: BrokerRegistration) -> BrokerRegistration:
    """Returns a registration with the former rack, and with the producer ids of the same incarnation."""
    if one.rack == known.rack:
        one = replace(one, former_rack=known.former_rack, rack_since_timestamp_ms=known.rack_since_timestamp_ms)
    else:
        one = replace(one, former_rack=None if one.rack == known.former_rack else known.rack)
    same = one.incarnation_id == known.incarnation_id
    return replace(one, producer_id_blocks=known.producer_id_blocks if same else 0)


def changed_broker(previous: BrokerRegistration, event: BrokerChanged, origin: RecordPosition) -> BrokerRegistration:
    """Returns the registration after a BrokerRegistrationChangeRecord: absent fields are unchanged."""
    fenced = previous.fenced if event.fenced is None else event.fenced
    leaving = previous.in_controlled_shutdown if event.in_controlled_shutdown is None else event.in_controlled_shutdown
    began_ms = previous.leaving_since_timestamp_ms if previous.in_controlled_shutdown else origin.timestamp_ms
    return replace(
        previous,
        fenced=fenced,
        alive_since_timestamp_ms=_alive_since(previous, origin, fenced=fenced),
        in_controlled_shutdown=leaving,
        leaving_since_timestamp_ms=began_ms if leaving else None,
        log_dirs=event.log_dirs or previous.log_dirs,
    )


def keep_alive_since(
    read: Mapping[NodeId, BrokerRegistration], known: Mapping[NodeId, BrokerRegistration]
) -> dict[NodeId, BrokerRegistration]:
    """Returns the registrations of a snapshot, with the known times since when the same incarnations are alive.

    A snapshot holds whether a broker is alive, not since when. A broker that was alive before did not just restart.
    What else only the log shows of a broker is kept too.
    """
    read = {node: _with_known(broker, known[node]) if node in known else broker for node, broker in read.items()}
    alive = {
        node: replace(
            broker,
            alive_since_timestamp_ms=known[node].alive_since_timestamp_ms,
            leaving_since_timestamp_ms=broker.leaving_since_timestamp_ms
            and (known[node].leaving_since_timestamp_ms or broker.leaving_since_timestamp_ms),
        )
        if broker.alive and node in known and known[node].alive and known[node].incarnation_id == broker.incarnation_id
        else broker
        for node, broker in read.items()
    }
    return keep_features_since(alive, known)


def keep_features_since(
    read: Mapping[NodeId, _Registration], known: Mapping[NodeId, _Registration]
) -> dict[NodeId, _Registration]:
    """Returns the registrations of a snapshot, with the known times since when they support the same features."""
    return {
        node: replace(one, features_since_timestamp_ms=known[node].features_since_timestamp_ms)
        if node in known and known[node].features == one.features
        else one
        for node, one in read.items()
    }


def keep_zk_migration(read: ZkMigration | None, known: ZkMigration | None) -> ZkMigration | None:
    """Returns the state in a snapshot, with the known time since when it lasts."""
    return known if read is not None and known is not None and known.state is read.state else read


def _features_since(
    previous: BrokerRegistration | ControllerRegistration | None,
    features: tuple[FeatureRange, ...],
    origin: RecordPosition,
) -> Millis:
    """Returns the log's time of the registration that first listed these features."""
    since = previous.features_since_timestamp_ms if previous is not None and previous.features == features else None
    return origin.timestamp_ms if since is None else since


def _alive_since(previous: BrokerRegistration | None, origin: RecordPosition, *, fenced: bool) -> Millis | None:
    """Returns the log's time of the record that last unfenced this broker; None while it is fenced."""
    if fenced:
        return None
    return previous.alive_since_timestamp_ms if previous is not None and previous.alive else origin.timestamp_ms


def removals(
    known: Iterable[VoterRemoval], *, visible: Image, following: Image, observed_at_ms: Millis
) -> tuple[VoterRemoval, ...]:
    """Returns the removals, oldest first, after `following` replaces `visible`; drops those whose id is a voter again.

    A removal read from older log gets a time before `observed_at_ms`: its age is its distance to the newest read record
    by the log's clock. Only differences of one clock are used.
    """
    if following.committed is None:
        return tuple(known)
    committed = following.committed
    kept = {removal.key: removal for removal in known}
    for key, timestamp_ms in _removed(visible, following, committed).items():
        age = max(0, (following.newest_timestamp_ms or timestamp_ms) - timestamp_ms)
        kept[key] = VoterRemoval(key=key, removed_at_ms=Millis(observed_at_ms - age))
    current = tuple(
        removal
        for removal in sorted(kept.values(), key=lambda removal: (removal.removed_at_ms, str(removal.key)))
        if removal.key.id not in committed.ids and observed_at_ms - removal.removed_at_ms <= REMOVAL_REMEMBERED_MS
    )
    return current[-REMOVALS_MAX:]


def _removed(visible: Image, following: Image, committed: VoterSet) -> dict[ReplicaKey, Millis]:
    """Returns the voters removed between two visible images, with the time by the log's clock."""
    removed: dict[ReplicaKey, Millis] = {}
    if visible.committed is not None:
        # A snapshot does not hold the time of a removal: at the latest its voter set was written then.
        removed = dict.fromkeys(visible.committed.keys - committed.keys, committed.timestamp_ms or Millis(0))
    known = visible.history.voter_changes
    if following.history.voter_changes is not known:
        new = (change for change in following.history.voter_changes if change not in known)
        removed |= {key: change.timestamp_ms for change in new for key in change.removed}
    return removed
