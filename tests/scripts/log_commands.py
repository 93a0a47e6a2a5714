"""One record of the metadata log, in words: situations, scripts of a simulated quorum and of a bare log share it."""

from typing import TypedDict

from connectors.observations.log_event import (
    BrokerMinInSyncReplicasSet,
    BrokerUnregistered,
    ControllerUnregistered,
    ElrCleared,
    GrantSet,
    MinInSyncReplicasSet,
    ProducerIdsAllocated,
    ThrottleSet,
    Undecodable,
    UnknownRecords,
)
from rules.model.identifiers import NodeId, Offset
from tests.commands import (
    Commands,
    Words,
    broker_endpoints,
    directories,
    endpoint,
    feature_range,
    nodes,
    topic_and_partition,
    voter,
)
from tests.scripts.log_script import LogScript

record: Commands[LogScript] = Commands("a record of the metadata log")


def append(log: LogScript, text: str) -> None:
    """Appends the record of `voters 1-a 2-b` and the like to a log."""
    record.run(log, text)


@record("leader")
def _leader(log: LogScript, words: Words) -> None:
    """leader 2 [epoch 5] [voters 1,2,3] [granted 2,3]: a LeaderChangeMessage."""
    epoch, voters, granted = words.number("epoch"), words.nodes("voters"), words.nodes("granted")
    log.leader(int(words.word()), epoch, voters=voters or (), granted=granted or ())


@record("kraft-version")
def _kraft_version(log: LogScript, version: int) -> None:
    """kraft-version 1: 1 is a dynamic quorum."""
    log.kraft(version)


@record("voters")
def _voters(log: LogScript, words: Words) -> None:
    """voters 1-a 2-b@c2:19093 [epoch 5]: a VotersRecord."""
    epoch = words.number("epoch")
    log.epoch = log.epoch if epoch is None else epoch
    log.voters(*map(voter, words.rest()))


@record("feature")
def _feature(log: LogScript, name: str, level: int) -> None:
    """feature metadata.version 27: its finalized level; 0 removes it."""
    log.feature(name, level)


@record("controller")
def _controller(log: LogScript, words: Words) -> None:
    """controller 2 [at c2:19093] [incarnation x] [supports metadata.version=7-29,..]: it registers."""
    where, incarnation, supports = words.option("at"), words.option("incarnation"), words.option("supports")
    log.controller(
        int(words.word()),
        where=None if where is None else endpoint(where),
        incarnation=incarnation,
        features=() if supports is None else tuple(map(feature_range, supports.split(","))),
    )


@record("broker")
def _broker(log: LogScript, words: Words) -> None:
    """broker 101 [alive] [at b1:9092] [incarnation x] [supports metadata.version=7-29] [dirs a,b]: it registers.

    [rack a]. `zookeeper` is one in ZooKeeper mode, which takes part in a migration (KIP-866).
    """
    rack = words.option("rack")
    alive, zookeeper = words.flag("alive"), words.flag("zookeeper")
    incarnation, supports = words.option("incarnation"), words.option("supports")
    where, log_dirs = words.option("at"), words.directories("dirs")
    log.broker(
        int(words.word()),
        fenced=not alive,
        where=() if where is None else broker_endpoints(where),
        incarnation=incarnation,
        features=() if supports is None else tuple(map(feature_range, supports.split(","))),
        log_dirs=log_dirs or (),
        zookeeper_mode=zookeeper,
        rack=rack,
    )


@record("log-dirs")
def _log_dirs(log: LogScript, node: int, online: str) -> None:
    """log-dirs 101 a,b: these log directories of the broker are online, and no others (KIP-858)."""
    log.broker_change(node, log_dirs=directories(online))


@record("fence", "unfence")
def _fence(log: LogScript, words: Words) -> None:
    """fence 101, unfence 101: a BrokerRegistrationChangeRecord."""
    log.broker_change(int(words.word()), fenced=words.command == "fence")


@record("shut-down", "end-shut-down")
def _shut_down(log: LogScript, words: Words) -> None:
    """shut-down 101, end-shut-down 101: a BrokerRegistrationChangeRecord of a controlled shutdown."""
    log.broker_change(int(words.word()), shutdown=words.command == "shut-down")


@record("unregister")
def _unregister(log: LogScript, node: int) -> None:
    """unregister 101: the broker's registration is deleted."""
    log.write(BrokerUnregistered(at=log.at(), id=NodeId(node)))


@record("unregister-controller")
def _unregister_controller(log: LogScript, node: int) -> None:
    """unregister-controller 4: the controller's registration is deleted (Kafka 4.4)."""
    log.write(ControllerUnregistered(at=log.at(), id=NodeId(node)))


@record("topic")
def _topic(log: LogScript, topic: str, *partitions: str) -> None:
    """topic orders [0:101,102 1:102,101]: a topic, and partitions with these replicas, all in sync."""
    log.topic(topic)
    for each in partitions:
        number, _, replicas = each.partition(":")
        log.partition(topic, int(number), *nodes(replicas))


@record("remove-topic")
def _remove_topic(log: LogScript, topic: str) -> None:
    """remove-topic orders: it and its partitions are deleted."""
    log.remove_topic(topic)


@record("partition")
def _partition(log: LogScript, words: Words) -> None:
    """partition orders-0 101,102 [elr 103] [recovering] [dirs a,c]: a PartitionRecord; all replicas are in sync."""
    elr, recovering, dirs = words.nodes("elr"), words.flag("recovering"), words.directories("dirs")
    topic, number = topic_and_partition(words.word())
    replicas = nodes(words.word())
    log.partition(topic, number, *replicas, elr=elr or (), recovering=recovering, directories=dirs or ())


@record("change")
def _change(log: LogScript, words: Words) -> None:
    """change orders-0 [isr 101] [leader 101|none] [recovering yes|no], and what else has changed.

    These are [replicas ..] [adding ..] [removing ..] [elr ..] [last-known-elr ..] [dirs a,c].
    """
    isr, leader, recovering = words.nodes("isr"), words.option("leader"), words.option("recovering")
    dirs = words.directories("dirs")
    sets = _further_sets(words)
    log.change(
        *topic_and_partition(words.word()),
        isr=isr,
        leader=None if leader in (None, "none") else int(leader),
        leaderless=leader == "none",
        recovering=None if recovering is None else {"yes": True, "no": False}[recovering],
        directories=dirs,
        **sets,
    )


@record("unclean-election")
def _elect_uncleanly(log: LogScript, words: Words) -> None:
    """unclean-election orders-0 102 [elr ..]: 102 is the leader and the ISR now, and the partition is RECOVERING."""
    sets, partition, leader = _further_sets(words), words.word(), int(words.word())
    log.change(*topic_and_partition(partition), isr=(leader,), leader=leader, recovering=True, **sets)


@record("recovered")
def _recovered(log: LogScript, partition: str, isr: str) -> None:
    """recovered orders-0 101,102: these replicas are the ISR, and the partition is RECOVERED."""
    log.change(*topic_and_partition(partition), isr=nodes(isr), recovering=False)


class FurtherSets(TypedDict):
    """The sets of replicas that only some changes have."""

    replicas: tuple[NodeId, ...] | None
    elr: tuple[NodeId, ...] | None
    last_known_elr: tuple[NodeId, ...] | None
    adding: tuple[NodeId, ...] | None
    removing: tuple[NodeId, ...] | None


def _further_sets(words: Words) -> FurtherSets:
    """Takes `replicas 101,102`, `elr 103`, `last-known-elr 101`, `adding 103` and `removing 101`."""
    return {
        "replicas": words.nodes("replicas"),
        "elr": words.nodes("elr"),
        "last_known_elr": words.nodes("last-known-elr"),
        "adding": words.nodes("adding"),
        "removing": words.nodes("removing"),
    }


@record("clear-elr")
def _clear_elr(log: LogScript, topic: str) -> None:
    """clear-elr orders: the eligible leader replicas of its partitions."""
    log.write(ElrCleared(at=log.at(), topic=topic))


@record("producer-ids")
def _producer_ids(log: LogScript, words: Words) -> None:
    """producer-ids 101 [next 5000]: the broker asks for a block of producer ids; the first id after it."""
    next_id = words.number("next")
    log.write(ProducerIdsAllocated(at=log.at(), broker=NodeId(int(words.word())), next_id=next_id))


@record("config")
def _config(log: LogScript, words: Words) -> None:
    """config orders min-isr 2, config cluster min-isr none, config 101 min-isr 2: of a topic, all others, a broker."""
    topic, value = words.word(), words.option("min-isr")
    at = log.at()
    number = None if value in (None, "none") else int(value)
    if topic.isdecimal():
        log.write(BrokerMinInSyncReplicasSet(at=at, broker=NodeId(int(topic)), value=number))
        return
    log.write(MinInSyncReplicasSet(at=at, topic=None if topic == "cluster" else topic, value=number))


@record("throttle")
def _throttle(log: LogScript, words: Words) -> None:
    """throttle orders [off], throttle 101 [off], throttle brokers: of a topic, a broker, or the default rate."""
    whose, is_set, at = words.word(), not words.flag("off"), log.at()
    if whose == "brokers":
        log.write(ThrottleSet(at=at, setting="follower.replication.throttled.rate", is_set=is_set))
        return
    broker = NodeId(int(whose)) if whose.isdecimal() else None
    topic, what = (whose, "replicas") if broker is None else (None, "rate")
    for role in ("leader", "follower"):
        setting = f"{role}.replication.throttled.{what}"
        log.write(ThrottleSet(at=at, topic=topic, broker=broker, setting=setting, is_set=is_set))


@record("grant")
def _grant(log: LogScript, words: Words) -> None:
    """grant acl a [off], grant credential alice [off]: an ACL by its id, or the SCRAM-SHA-256 of a user."""
    kind, name, is_set = words.word(), words.word(), not words.flag("off")
    grant = f"ACL {name}" if kind == "acl" else f"SCRAM-SHA-256 of user {name}"
    log.write(GrantSet(at=log.at(), grant=grant, is_set=is_set))


@record("zk-migration")
def _zk_migration(log: LogScript, state: str) -> None:
    """zk-migration migration: its state, which is also none, pre-migration or post-migration (KIP-866)."""
    log.zk_migration(state)


@record("transaction")
def _transaction(log: LogScript, words: Words) -> None:
    """transaction begin [unnamed], transaction end, transaction abort: a metadata transaction (KIP-868)."""
    unnamed = words.flag("unnamed")
    match words.word():
        case "begin":
            log.begin(None if unnamed else "t")
        case "end":
            log.end()
        case "abort":
            log.end(aborted=True)
        case other:
            raise AssertionError(f"a transaction cannot {other}")


@record("noops")
def _noops(log: LogScript, count: int) -> None:
    """noops 3: records that change nothing."""
    log.noops(count)


@record("undecodable")
def _undecodable(log: LogScript, *reason: str) -> None:
    """undecodable REASON: a record that cannot be decoded, and why."""
    log.write(Undecodable(offset=Offset(log.offset), reason=" ".join(reason), length=17))
    log.noops(1)


@record("unknown-record")
def _unknown_record(log: LogScript, record: str, version: int) -> None:
    """unknown-record 501 0: one of a newer Kafka, or of another product: its type's number or name, its version."""
    name = f"record type {record}" if record.isdigit() else record
    known = None if record.isdigit() else record
    log.write(UnknownRecords(at=log.at(), name=f"{name} version {version}", kafka_class=known))
