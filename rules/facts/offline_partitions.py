"""Which brokers the partitions without a leader wait for, and which brokers are not to be started before those.

A replica that is not in the ISR or ELR (KIP-966) may lack acknowledged records. If its broker starts first and the
topic has unclean.leader.election.enable, the controller elects it at once, and the records are lost.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum

from rules.facts.emptied import Emptied, is_emptied
from rules.formatting import and_join
from rules.model.history import PartitionSum, TopicPartition
from rules.model.identifiers import NodeId, ReplicaKey
from rules.model.quorum import Quorum

_MAX_NAMED = 3


class Cause(Enum):
    """Why a replica cannot become the leader. Of several, the first one is the easiest to end."""

    FENCED = 0
    CONTROLLER_ONLY = 1
    DIRECTORY = 2
    NOT_LEADING = 3
    UNREGISTERED = 4
    LEADER = 5
    """It is recorded as the leader, and is fenced or not registered."""


def awaited(
    quorum: Quorum, one: PartitionSum, controllers_only: Collection[NodeId], emptied: Emptied
) -> tuple[Cause, ReplicaKey | None]:
    """Returns the replica that can come back most easily of those that may lead these partitions, and why it does not.

    None if one of them may lead at once, or the log names none, or they were created again in another directory.
    """
    causes = [(_cause(quorum, key, controllers_only), key) for key in one.holders if not is_emptied(emptied, one, key)]
    cause, holder = min(causes, key=lambda each: (each[0].value, each[1].id), default=(Cause.NOT_LEADING, None))
    return (cause, None) if cause is Cause.NOT_LEADING else (cause, holder)


def not_in_sync(quorum: Quorum, one: PartitionSum, controllers_only: Collection[NodeId]) -> tuple[Cause, ReplicaKey]:
    """Returns the replica of partitions below min.insync.replicas that comes back most easily, and why it is missing.

    NOT_LEADING: its broker is alive, and it does not keep up or has just begun to.
    """
    return min(
        ((_cause(quorum, holder, controllers_only), holder) for holder in one.holders),
        key=lambda each: (each[0].value, each[1].id),
    )


def left_in_order(quorum: Quorum) -> frozenset[NodeId]:
    """Returns the brokers that left by a controlled shutdown and are not back, also while they start again."""
    newest = {interruption.id: interruption for interruption in quorum.history.interruptions}
    left = {
        node for node, interruption in newest.items() if interruption.announced and interruption.ended_offset is None
    }
    return frozenset(left | {broker.id for broker in quorum.brokers.values() if broker.in_controlled_shutdown})


def named(one: TopicPartition) -> str:
    """Returns `orders-0`; by its id while the name of the topic is not known."""
    return f"partition {one.partition} of topic {one.topic_id}" if one.topic is None else f"{one.topic}-{one.partition}"


def named_ones(examples: Sequence[TopicPartition], count: int) -> str:
    """Returns the first of so many partitions, and how many more there are."""
    names = [named(example) for example in examples[:_MAX_NAMED]]
    if not names:
        return "kafka-topics.sh lists them"
    return and_join(names) if len(names) == count else f"{', '.join(names)} and {count - len(names)} more"


def _cause(quorum: Quorum, holder: ReplicaKey, controllers_only: Collection[NodeId]) -> Cause:
    broker = quorum.brokers.get(holder.id)
    if holder.id in controllers_only:
        return Cause.CONTROLLER_ONLY
    if broker is None:
        return Cause.UNREGISTERED
    if broker.fenced or broker.in_controlled_shutdown:
        return Cause.FENCED
    offline = holder.directory_id is not None and broker.log_dirs and holder.directory_id not in broker.log_dirs
    return Cause.DIRECTORY if offline else Cause.NOT_LEADING


def brokers_before(
    quorum: Quorum, offline: Iterable[PartitionSum], controllers_only: Collection[NodeId], emptied: Emptied
) -> Mapping[NodeId, Mapping[NodeId, int]]:
    """Returns by broker that does not run which ones must be back before it, and for how many partitions.

    Before one that lost their records, those with another replica.
    """
    found: dict[NodeId, dict[NodeId, int]] = {}
    for partition in offline:
        _, awaited_ = awaited(quorum, partition, controllers_only, emptied)
        without = [holder for holder in partition.holders if is_emptied(emptied, partition, holder)]
        pairs = [(node, awaited_.id, count) for node, count in partition.others if awaited_ is not None]
        pairs += [(holder.id, node, count) for holder in without for node, count in partition.others]
        for node, before, count in pairs:
            broker = quorum.brokers.get(node)
            if broker is None or broker.fenced:
                of_node = found.setdefault(node, {})
                of_node[before] = of_node.get(before, 0) + count
    return found


def circle_of(before: Mapping[NodeId, Mapping[NodeId, int]], node: NodeId) -> set[NodeId]:
    """Returns the brokers that must be back before this one, and this one before them."""
    return {each for each in before[node] if node in _all_before(before, each)}


def _all_before(before: Mapping[NodeId, Mapping[NodeId, int]], node: NodeId) -> set[NodeId]:
    found: set[NodeId] = set()
    left = [node]
    while left:
        for each in before.get(left.pop(), ()):
            if each not in found:
                found.add(each)
                left.append(each)
    return found
