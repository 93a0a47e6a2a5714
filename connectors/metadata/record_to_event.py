"""Converts the fields of one record, by Kafka's names, to an Event. One function per record type.

Kafka's values for "absent" (-1, the zero UUID, empty) and "unchanged" (-1, -2, 0) become None here. Values that no
Kafka writes are refused: each converter raises UndecodableError, whose reason names the field and the value.
"""

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from typing import Final, TypeAlias

from connectors.errors import UndecodableError
from connectors.metadata.field_readers import Values
from connectors.metadata.record_schemas import CONFIG_RECORD, MIN_ISR, is_min_isr
from connectors.metadata.run_rows import UNCHANGED_LEADER, UNCHANGED_STATE, recovering
from connectors.metadata.value_limits import (
    ABSENT,
    LARGEST_INT16,
    MOST_FEATURES,
    MOST_LISTENERS,
    MOST_LOG_DIRECTORIES,
    MOST_REPLICAS,
    valid_count,
    valid_node,
    valid_nodes,
    valid_number,
)
from connectors.observations.log_event import (
    BrokerChanged,
    BrokerMinInSyncReplicasSet,
    BrokerUnregistered,
    ControllerUnregistered,
    ElrCleared,
    FeatureLevelSet,
    GrantSet,
    KRaftVersionSet,
    LeaderChanged,
    MinInSyncReplicasSet,
    PartitionChanged,
    PartitionSet,
    ProducerIdsAllocated,
    ThrottleSet,
    TopicCreated,
    TopicRemoved,
    TransactionBegan,
    TransactionEnded,
    VotersReplaced,
    ZkMigrationChanged,
)
from connectors.observations.observation import Event
from rules.model.history import ZkMigrationState
from rules.model.identifiers import DirectoryId, Endpoint, NodeId, ReplicaKey, TopicId
from rules.model.membership import (
    MOST_VOTERS,
    BrokerRegistration,
    ControllerRegistration,
    FeatureRange,
    RecordPosition,
    Voter,
)

Converter: TypeAlias = Callable[[RecordPosition, Values], Event | None]
"""Returns None if no rule needs the record."""


def _leader_changed(at: RecordPosition, values: Values) -> Event:
    voters, granting = (
        valid_nodes(name, [voter["voter_id"] for voter in values[listed]], MOST_VOTERS)
        for name, listed in (("voter id", "voters"), ("granting voter id", "granting_voters"))
    )
    return LeaderChanged(
        at=at,
        leader_id=valid_node("leader id", values["leader_id"]),
        voter_ids=voters,
        granting_voter_ids=granting,
    )


def _voters_replaced(at: RecordPosition, values: Values) -> Event:
    listed = values["voters"]
    if len(listed) > MOST_VOTERS:
        raise UndecodableError(f"names {len(listed)} voters; a quorum has at most {MOST_VOTERS}")
    ids = valid_nodes("voter id", [voter["voter_id"] for voter in listed])
    voters = tuple(
        Voter(
            key=ReplicaKey(id=node, directory_id=voter["voter_directory_id"]),
            endpoints=_endpoints(voter["endpoints"]),
            kraft_versions=_kraft_versions(voter["kraft_version_feature"]),
        )
        for node, voter in zip(ids, listed, strict=True)
    )
    return VotersReplaced(at=at, voters=voters)


def _kraft_versions(supported: Values) -> FeatureRange:
    lowest, highest = (
        valid_number("supported kraft.version", supported[name], 0, LARGEST_INT16)
        for name in ("min_supported_version", "max_supported_version")
    )
    return FeatureRange(name="kraft.version", lowest=lowest, highest=highest)


def _feature_level_set(at: RecordPosition, values: Values) -> Event:
    level = valid_number("feature level", values["feature_level"], 0, LARGEST_INT16)
    return FeatureLevelSet(at=at, name=values["name"], level=level)


def _controller_registered(at: RecordPosition, values: Values) -> Event:
    return ControllerRegistration(
        at=at,
        id=valid_node("controller id", values["controller_id"]),
        incarnation_id=values["incarnation_id"] or "",
        endpoints=_endpoints(values["end_points"]),
        features=_features(values["features"]),
    )


def _broker_registered(at: RecordPosition, values: Values) -> Event:
    return BrokerRegistration(
        at=at,
        id=valid_node("broker id", values["broker_id"]),
        incarnation_id=values["incarnation_id"] or "",
        endpoints=_endpoints(values["end_points"]),
        fenced=values["fenced"],
        in_controlled_shutdown=values["in_controlled_shutdown"],
        features=_features(values["features"]),
        log_dirs=_log_dirs(values),
        zookeeper_mode=values.get("is_migrating_zk_broker", False),
        rack=values["rack"] or None,
        broker_epoch=values["broker_epoch"],
    )


_PROTOCOLS: Final[Mapping[int | None, str]] = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
"""Kafka's SecurityProtocol, by its id."""
_ZK_MIGRATIONS: Final[Mapping[int, ZkMigrationState]] = {
    0: ZkMigrationState.NONE,
    1: ZkMigrationState.MIGRATION,
    2: ZkMigrationState.PRE_MIGRATION,
    3: ZkMigrationState.POST_MIGRATION,
}
"""ZkMigrationState. Kafka 3.4, with which no migration can end, has 1 and 2 the other way round."""
_FENCED: Final[Mapping[int, bool | None]] = {-1: False, 0: None, 1: True}
"""BrokerRegistrationFencingChange: UNFENCE, NONE, FENCE."""
_SHUTTING_DOWN: Final[Mapping[int, bool | None]] = {0: None, 1: True}
"""BrokerRegistrationInControlledShutdownChange: NONE, IN_CONTROLLED_SHUTDOWN."""


def _broker_changed(at: RecordPosition, values: Values) -> Event:
    fenced, shutdown = values["fenced"], values["in_controlled_shutdown"]
    if fenced not in _FENCED or shutdown not in _SHUTTING_DOWN:
        raise UndecodableError(f"has fenced {fenced} and inControlledShutdown {shutdown}, which Kafka does not define")
    return BrokerChanged(
        at=at,
        id=valid_node("broker id", values["broker_id"]),
        fenced=_FENCED[fenced],
        in_controlled_shutdown=_SHUTTING_DOWN[shutdown],
        log_dirs=_log_dirs(values) or None,
        broker_epoch=values["broker_epoch"],
    )


def _log_dirs(values: Values) -> tuple[DirectoryId, ...]:
    """Returns the ids of the log directories that are online; none before Kafka 3.7."""
    listed = values.get("log_dirs") or ()
    valid_count("log directories", listed, MOST_LOG_DIRECTORIES)
    return tuple(sorted(DirectoryId(one) for one in listed if one is not None))


def _zk_migration(at: RecordPosition, values: Values) -> Event:
    state = values["zk_migration_state"]
    if state not in _ZK_MIGRATIONS:
        raise UndecodableError(f"has ZooKeeper migration state {state}, which Kafka does not define")
    return ZkMigrationChanged(at=at, state=_ZK_MIGRATIONS[state])


_TOPIC, _BROKER = 2, 4
"""ConfigResource.Type."""


_THROTTLES: Final = {
    _TOPIC: frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}),
    _BROKER: frozenset({"leader.replication.throttled.rate", "follower.replication.throttled.rate"}),
}
"""By ConfigResource.Type: the settings with which kafka-reassign-partitions.sh and others slow replication down."""


def _config_set(at: RecordPosition, values: Values) -> Event | None:
    """Returns the min.insync.replicas of a topic, of the cluster or of one broker, or a throttle; None for another
    key."""
    kind, resource, value = values["resource_type"], values["resource_name"], values["value"]
    # The other keys of a broker are not looked at, whatever its id is.
    if kind not in _THROTTLES or values["name"] not in {MIN_ISR, *_THROTTLES[kind]}:
        return None
    if kind == _BROKER and resource and not resource.isdecimal():
        return None
    broker = None if kind == _TOPIC or not resource else valid_node("broker id", int(resource))
    topic = resource if kind == _TOPIC else None
    if values["name"] in _THROTTLES[kind]:
        return ThrottleSet(at=at, topic=topic, broker=broker, setting=values["name"], is_set=value is not None)
    if value is not None and not is_min_isr(MIN_ISR.encode(), value.encode()):
        # Overwritten by a kraftwatch that did not need it.
        return None
    number = None if value is None else valid_number(MIN_ISR, int(value), 1)
    if broker is not None:
        return BrokerMinInSyncReplicasSet(at=at, broker=broker, value=number)
    return MinInSyncReplicasSet(at=at, topic=topic, value=number)


_MECHANISMS: Final[Mapping[int, str]] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""Kafka's ScramMechanism."""
_MOST_OF_A_USER = 200
"""Characters of a user's name; a longer one is known by its hash."""


def _acl(at: RecordPosition, values: Values, *, is_set: bool) -> Event:
    return GrantSet(at=at, grant=f"ACL {values['id']}", is_set=is_set)


def _credential(at: RecordPosition, values: Values, *, is_set: bool) -> Event | None:
    """Returns None for a record of Kafka 3.3, which has no SCRAM in KRaft."""
    mechanism, user = values.get("mechanism"), values["name"]
    if mechanism is None:
        return None
    if len(user) > _MOST_OF_A_USER:
        user = sha256(user.encode()).hexdigest()
    name = _MECHANISMS.get(mechanism, f"SCRAM mechanism {mechanism}")
    return GrantSet(at=at, grant=f"{name} of user {user}", is_set=is_set)


def _partition_set(at: RecordPosition, values: Values) -> Event:
    state = recovering(values["leader_recovery_state"], absent=None)
    assert state is not None
    return PartitionSet(
        at=at,
        topic_id=_topic(values),
        partition=valid_number("partition", values["partition_id"]),
        replicas=_replicas(values["replicas"]),
        isr=valid_nodes("in-sync replica", values["isr"]),
        elr=_nodes("eligible leader replica", values.get("eligible_leader_replicas")) or (),
        last_known_elr=_last_known_elr(values.get("last_known_elr")) or (),
        leader=_leader(valid_number("leader", values["leader"], ABSENT)),
        partition_leader_epoch=valid_number("leader epoch", values["leader_epoch"], ABSENT),
        partition_epoch=valid_number("partition epoch", values["partition_epoch"], ABSENT),
        recovering=state,
        directories=_directories(values) or (),
        adding=_nodes("adding replica", values["adding_replicas"]) or (),
        removing=_nodes("removing replica", values["removing_replicas"]) or (),
    )


def _partition_changed(at: RecordPosition, values: Values) -> Event:
    leader = valid_number("leader", values["leader"], UNCHANGED_LEADER)
    return PartitionChanged(
        at=at,
        topic_id=_topic(values),
        partition=valid_number("partition", values["partition_id"]),
        replicas=None if values["replicas"] is None else _replicas(values["replicas"]),
        isr=_nodes("in-sync replica", values["isr"]),
        elr=_nodes("eligible leader replica", values["eligible_leader_replicas"]),
        last_known_elr=_last_known_elr(values["last_known_elr"]),
        leader=_leader(leader),
        leader_set=leader != UNCHANGED_LEADER,
        recovering=recovering(values["leader_recovery_state"], absent=UNCHANGED_STATE),
        directories=_directories(values),
        adding=_nodes("adding replica", values["adding_replicas"]),
        removing=_nodes("removing replica", values["removing_replicas"]),
    )


def _directories(values: Values) -> tuple[DirectoryId | None, ...] | None:
    """Returns the directory of each replica; None if the record has none, as before Kafka 3.7."""
    listed = values.get("directories")
    if not listed:
        return None
    valid_count("directories", listed, MOST_REPLICAS)
    return tuple(None if one is None else DirectoryId(one) for one in listed)


def _topic(values: Values) -> TopicId:
    topic = values["topic_id"]
    if topic is None:
        raise UndecodableError("has the zero UUID for a topic id")
    return TopicId(topic)


def _leader(value: int) -> NodeId | None:
    return None if value < 0 else NodeId(value)


def _replicas(values: list[int]) -> tuple[NodeId, ...]:
    if not values:
        raise UndecodableError("has no replicas")
    return valid_nodes("replica", values)


def _nodes(field: str, values: list[int] | None) -> tuple[NodeId, ...] | None:
    return None if values is None else valid_nodes(field, values)


def _last_known_elr(values: list[int] | None) -> tuple[NodeId, ...] | None:
    """Returns the last known ELR, in which Kafka stores the last leader (PartitionChangeBuilder).

    It stores -1 if a partition had none any more, as after a ClearElrRecord, and its reassignment is cancelled.
    """
    return _nodes("last known ELR replica", [] if values == [ABSENT] else values)


def _endpoints(values: list[Values]) -> tuple[Endpoint, ...]:
    valid_count("endpoints of one node", values, MOST_LISTENERS)
    _each_once("listener", values)
    return tuple(
        Endpoint(
            listener=value["name"],
            host=value["host"],
            port=value["port"],
            protocol=_PROTOCOLS.get(value.get("security_protocol")),
        )
        for value in values
    )


def _each_once(what: str, values: list[Values]) -> None:
    """Checks that each name is listed once: Kafka's collections have the name as their key."""
    if len({value["name"] for value in values}) < len(values):
        raise UndecodableError(f"names a {what} twice")


def _features(values: list[Values]) -> tuple[FeatureRange, ...]:
    valid_count("features", values, MOST_FEATURES)
    _each_once("feature", values)
    return tuple(sorted(map(_feature, values)))


def _feature(values: Values) -> FeatureRange:
    """Returns a feature's levels; Kafka's BaseVersionRange has the same limits."""
    highest = valid_number("highest supported level", values["max_supported_version"], 0, LARGEST_INT16)
    lowest = valid_number("lowest supported level", values["min_supported_version"], 0, highest)
    return FeatureRange(name=values["name"], lowest=lowest, highest=highest)


CONVERTERS: Final[Mapping[str, Converter]] = {
    "RegisterBrokerRecord": _broker_registered,
    "UnregisterBrokerRecord": lambda at, values: BrokerUnregistered(
        at=at, id=valid_node("broker id", values["broker_id"]), broker_epoch=values["broker_epoch"]
    ),
    "TopicRecord": lambda at, values: TopicCreated(at=at, topic_id=_topic(values), name=values["name"]),
    "PartitionRecord": _partition_set,
    "PartitionChangeRecord": _partition_changed,
    "FenceBrokerRecord": lambda at, values: BrokerChanged(
        at=at,
        id=valid_node("broker id", values["id"]),
        fenced=True,
        in_controlled_shutdown=None,
        broker_epoch=values["epoch"],
    ),
    "UnfenceBrokerRecord": lambda at, values: BrokerChanged(
        at=at,
        id=valid_node("broker id", values["id"]),
        fenced=False,
        in_controlled_shutdown=None,
        broker_epoch=values["epoch"],
    ),
    "RemoveTopicRecord": lambda at, values: TopicRemoved(at=at, topic_id=_topic(values)),
    "FeatureLevelRecord": _feature_level_set,
    "BrokerRegistrationChangeRecord": _broker_changed,
    "BeginTransactionRecord": lambda at, values: TransactionBegan(at=at, name=values["name"] or None),
    "EndTransactionRecord": lambda at, _: TransactionEnded(at=at, aborted=False),
    "AbortTransactionRecord": lambda at, _: TransactionEnded(at=at, aborted=True),
    "RegisterControllerRecord": _controller_registered,
    "UnregisterControllerRecord": lambda at, values: ControllerUnregistered(
        at=at, id=valid_node("controller id", values["controller_id"])
    ),
    "ProducerIdsRecord": lambda at, values: ProducerIdsAllocated(
        at=at,
        broker=None if values["broker_id"] == -1 else valid_node("broker id", values["broker_id"]),
        next_id=values["next_producer_id"],
    ),
    "AccessControlEntryRecord": partial(_acl, is_set=True),
    "RemoveAccessControlEntryRecord": partial(_acl, is_set=False),
    "UserScramCredentialRecord": partial(_credential, is_set=True),
    "RemoveUserScramCredentialRecord": partial(_credential, is_set=False),
    "ZkMigrationStateRecord": _zk_migration,
    CONFIG_RECORD: _config_set,
    "ClearElrRecord": lambda at, values: ElrCleared(at=at, topic=values["topic_name"] or None),
}
"""By Kafka's class: the metadata records that rules need. All others are skipped by their length."""
NEEDED_TEXT: Final[Mapping[str, frozenset[bytes]]] = {
    CONFIG_RECORD: frozenset(name.encode() for name in {MIN_ISR}.union(*_THROTTLES.values()))
}
"""By Kafka's class: what a record contains one of if a rule needs it."""

CONTROL_CONVERTERS: Final[Mapping[str, Converter]] = {
    "LeaderChangeMessage": _leader_changed,
    "KRaftVersionRecord": lambda at, values: KRaftVersionSet(
        at=at, version=valid_number("kraft.version", values["kraft_version"], 0, LARGEST_INT16)
    ),
    "VotersRecord": _voters_replaced,
}
"""The same for KRaft's control records. `decoder` converts snapshot header and footer: they need the snapshot's id."""
