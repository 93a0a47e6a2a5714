"""A partition that recovers from an unclean election (KIP-704): what can be lost, and the state of its replicas."""

from collections.abc import Iterable
from enum import StrEnum

from rules.finding import Threshold, Thresholds
from rules.formatting import and_join
from rules.model.history import Recovery
from rules.model.identifiers import Millis, NodeId
from rules.model.quorum import Quorum

JOIN = Threshold(
    name="join",
    default=30.0,
    meaning="how long a live replica may take to join before it counts as not joining: a restarted broker took 19 s "
    "with Kafka's defaults",
)
COPY = Threshold(
    name="copy",
    default=3_600.0,
    meaning="how long a live replica that a reassignment added may take to copy the partition before it counts as not "
    "joining: raise it where partitions are big or reassignments throttled",
)


class ReplicaState(StrEnum):
    """Why a replica is not in the ISR, as alerts print it."""

    NOT_JOINING = "alive, does not join the ISR"
    JOINING = "alive, may be joining"
    COPYING = "alive, newly assigned, may be copying"
    SHUTTING_DOWN = "shutting down"
    FENCED = "fenced"
    UNREGISTERED = "not registered"

    @property
    def down(self) -> bool:
        """Whether the replica's broker must be started before the replica can join."""
        return self in (ReplicaState.SHUTTING_DOWN, ReplicaState.FENCED, ReplicaState.UNREGISTERED)


def only_unflushed(recovery: Recovery) -> bool:
    """Returns whether no other replica's records can be lost: the last leader or the only replica was elected."""
    return recovery.last_leader or len({*recovery.replicas} - {*recovery.added}) <= 1


def unflushed_sentence(leaders: Iterable[NodeId], *, only_replica: bool) -> str:
    """Returns what can be lost if these brokers, which led last or have the only replicas, were elected."""
    nodes = sorted({*leaders})
    one = len(nodes) == 1
    brokers = f"Broker {nodes[0]}" if one else f"Brokers {and_join(nodes, 6)}"
    which = f"{'has' if one else 'have'} the only replica" if only_replica else "led last"
    they = "it" if one else "they"
    return f"{brokers} {which}: only records that {they} had not flushed to disk when {they} crashed can be lost."


def replica_states(
    quorum: Quorum, newest: Millis, recovery: Recovery, thresholds: Thresholds
) -> dict[NodeId, ReplicaState]:
    """Returns the state of each replica that is neither the leader nor in the ISR, by node id."""
    in_sync = {recovery.leader, *recovery.isr}
    nodes = [node for node in sorted(recovery.replicas) if node not in in_sync]
    return {node: _state(quorum, newest, recovery, node, thresholds) for node in nodes}


def _state(quorum: Quorum, newest: Millis, recovery: Recovery, node: NodeId, thresholds: Thresholds) -> ReplicaState:
    broker = quorum.brokers.get(node)
    if broker is None:
        return ReplicaState.UNREGISTERED
    if broker.fenced:
        return ReplicaState.FENCED
    if broker.in_controlled_shutdown:
        return ReplicaState.SHUTTING_DOWN
    added = recovery.added_timestamp_ms
    if node in recovery.added and added is not None and newest - added < thresholds.ms(COPY.name):
        return ReplicaState.COPYING
    since = broker.alive_since_timestamp_ms
    age = max(0, newest - recovery.since_timestamp_ms)
    available = age if since is None else newest - since
    if not recovery.at_least:
        # A snapshot does not hold since when the partition recovers: then only the broker's uptime counts.
        available = min(age, available)
    return ReplicaState.NOT_JOINING if available >= thresholds.ms(JOIN.name) else ReplicaState.JOINING
