"""Replicas that their broker created again in another log directory, without their records (KIP-858), as they are now.

A directory may be back. The broker may hold other replicas, whole, in the same directory: each partition is asked for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rules.formatting import topic_text
from rules.model.history import EmptiedReplicas, PartitionSum, Recovery, TopicPartition
from rules.model.identifiers import NodeId, ReplicaKey, TopicId
from rules.model.quorum import Quorum


class Emptied:
    """The emptied replicas of a quorum, by broker and topic."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._of: Mapping[tuple[NodeId, TopicId], EmptiedReplicas] = {
            (one.broker, one.topic_id): one for one in quorum.history.emptied
        }
        self.lasting = tuple(one for one in quorum.history.emptied if not one.returned(quorum.brokers))
        """Those whose directory is not back."""

    def contains(self, broker: NodeId, topic_id: TopicId, partition: int) -> bool:
        """Returns whether the broker's replica is one of those."""
        one = self._of.get((broker, topic_id))
        return one is not None and not one.returned(self._quorum.brokers) and _has(one, partition)

    def others(self, broker: NodeId, topic_id: TopicId) -> tuple[NodeId, ...]:
        """Returns the brokers with another replica of those partitions."""
        return self._of[broker, topic_id].others

    def restored(self, broker: NodeId, topic_id: TopicId) -> EmptiedReplicas | None:
        """Returns the replicas of a topic whose records are back with their directory: nobody truncated them.

        No broker with another replica ran between: one that had followed the empty log could have led since.
        """
        one = self._of.get((broker, topic_id))
        registered = self._quorum.brokers.get(broker)
        if one is None or registered is None or not {*one.lost} <= {*registered.log_dirs}:
            return None
        return one if all(self._was_down(node, one) for node in one.others) else None

    def restored_of(self, topic: str | None) -> tuple[EmptiedReplicas, ...]:
        """Returns those of a topic, by its name or id, whose directory is back: empty unless of all it is known."""
        of_topic = [one for one in self._of.values() if topic in (one.topic, topic_text(None, one.topic_id))]
        restored = [self.restored(one.broker, one.topic_id) for one in of_topic]
        return tuple(one for one in restored if one is not None) if None not in restored else ()

    def _was_down(self, node: NodeId, one: EmptiedReplicas) -> bool:
        """Returns whether a broker did not run from before the replicas were emptied until their broker was back."""
        quorum = self._quorum
        newest = next((each for each in reversed(quorum.history.interruptions) if each.id == node), None)
        if newest is None or newest.offset > one.offset or newest.further_starts:
            return False
        broker, back = quorum.brokers.get(node), quorum.brokers[one.broker].at.offset
        return broker is not None and broker.at.offset > back if newest.restarted else newest.ended_offset is None


def _has(one: EmptiedReplicas, partition: int) -> bool:
    return partition in one.numbers or one.partitions > len(one.numbers)


def recoveries(quorum: Quorum, emptied: Emptied) -> tuple[Recovery, ...]:
    """Returns the RECOVERING partitions; `emptied` only while the leader, or who may lead, lacks the records."""
    return tuple(_now(one, emptied) if one.emptied else one for one in quorum.recovering)


def _now(one: Recovery, emptied: Emptied) -> Recovery:
    candidates = one.replicas if one.leader is None else (one.leader,)
    if any(emptied.contains(node, one.topic_id, one.partition) for node in candidates):
        return one
    restored = one.leader is not None and emptied.restored(one.leader, one.topic_id) is not None
    return replace(one, emptied=False, last_leader=restored)


def offline_sums(quorum: Quorum, emptied: Emptied) -> tuple[PartitionSum, ...]:
    """Returns the partitions without a leader; those whose replica was emptied apart from others that wait for it."""
    return tuple(part for one in quorum.offline for part in _parts(one, emptied))


def _parts(one: PartitionSum, emptied: Emptied) -> Iterator[PartitionSum]:
    of_emptied = tuple(
        example
        for example in one.examples
        if any(emptied.contains(holder.id, example.topic_id, example.partition) for holder in one.holders)
    )
    rest = tuple(example for example in one.examples if example not in of_emptied)
    if not of_emptied or not rest:
        yield one
        return
    for examples, count in ((of_emptied, len(of_emptied)), (rest, one.partitions - len(of_emptied))):
        # Of the other replicas only the sum is known.
        others = tuple((node, min(held, count)) for node, held in one.others)
        yield replace(one, partitions=count, examples=examples, others=others)


def is_emptied(emptied: Emptied, one: PartitionSum, holder: ReplicaKey) -> bool:
    """Returns whether this replica of these partitions was created again without its records."""
    return bool(one.examples) and all(_of(emptied, holder, example) for example in one.examples)


def _of(emptied: Emptied, holder: ReplicaKey, example: TopicPartition) -> bool:
    return emptied.contains(holder.id, example.topic_id, example.partition)
