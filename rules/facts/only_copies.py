"""Which brokers may hold the only copy of acknowledged records, or the only one that is in sync (KIP-704, KIP-966)."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple, TypeAlias

from rules.facts.emptied import Emptied, is_emptied
from rules.model.ages import REMEMBERED_MS
from rules.model.history import PartitionSum, Recovery
from rules.model.identifiers import START, NodeId, Offset, TopicId
from rules.model.quorum import Quorum


class PartitionDirectory(NamedTuple):
    """A partition's directory in the log.dirs of a broker."""

    topic: str
    """The topic's name; its id if the name is unknown."""
    partition: int
    text: str
    """The directory's name, such as `orders-0`; a description if the topic's name is unknown."""


Directories: TypeAlias = frozenset[PartitionDirectory]


def only_copies(quorum: Quorum, recoveries: Iterable[Recovery], emptied: Emptied) -> Mapping[NodeId, Directories]:
    """Returns the brokers that may hold the only copy of acknowledged records, with the directories of the partitions.

    These are, for each RECOVERING partition, the replicas that were in the ISR or ELR before the election and are not
    in the ISR now, and further ones that have not started since: those before may have lost their disks (every replica
    outside the ISR if the log does not show which they were, none if the last leader was elected with its directory).
    And, for each remembered unclean election, the brokers that were not elected and have not started since: the
    partition may have recovered from another replica. The same for the other replicas of one that its broker has
    created again in another directory.
    """
    of_recoveries = ((node, _recovering(recovery)) for recovery in recoveries for node in _holders(quorum, recovery))
    of_elections = (
        (node, _directory(election.topic, election.topic_id, partition))
        for election in quorum.history.unclean
        for node in (*election.passed_over, *election.others)
        if _has_not_run_since(quorum, node, election.last_offset)
        for partition in election.partitions
    )
    of_emptied = ((node, directory) for node, _, directory in _beside_emptied(quorum, emptied))
    return _by_node(chain(of_recoveries, of_elections, of_emptied))


def _beside_emptied(quorum: Quorum, emptied: Emptied) -> Iterator[tuple[NodeId, NodeId, PartitionDirectory]]:
    """Yields the broker of each replica that did not run since another broker's was emptied, and that broker."""
    for replicas in emptied.lasting:
        for node in replicas.others:
            if _has_not_run_since(quorum, node, replicas.offset):
                for partition in replicas.numbers:
                    yield node, replicas.broker, _directory(replicas.topic, replicas.topic_id, partition)


def stopped_before(quorum: Quorum, emptied: Emptied) -> Mapping[NodeId, Mapping[NodeId, Directories]]:
    """Returns by broker those that must be stopped before it starts: they lead without the records that it has."""
    return _by_both(
        (node, leader, directory)
        for node, leader, directory in _beside_emptied(quorum, emptied)
        if leader in quorum.brokers and not quorum.brokers[leader].fenced
    )


def copied_before(
    quorum: Quorum, offline: Iterable[PartitionSum], recoveries: Iterable[Recovery]
) -> Mapping[NodeId, Mapping[NodeId, Directories]]:
    """Returns by broker those whose replicas must be copied before it starts, although they run.

    It was elected uncleanly, has stopped, and leads again when it starts. Then they truncate what they have.
    """
    elected = {(one.topic_id, one.partition) for one in recoveries if not one.last_leader}
    elected |= {
        (one.topic_id, partition)
        for one in quorum.history.unclean
        if one.last_leaders < one.elections
        for partition in one.partitions
    }
    return _by_both(
        (holder.id, node, _directory(example.topic, example.topic_id, example.partition))
        for partition in offline
        for example in partition.examples
        if (example.topic_id, example.partition) in elected
        for holder in partition.holders
        for node, _ in partition.others
        if node in quorum.brokers and quorum.brokers[node].alive
    )


def records_awaited(
    offline: Iterable[PartitionSum], stopped_first: Mapping[NodeId, Mapping[NodeId, Directories]], emptied: Emptied
) -> Mapping[NodeId, Directories]:
    """Returns the brokers that would lead partitions without their records although another replica may have some."""
    waiting = (
        (holder.id, _directory(example.topic, example.topic_id, example.partition))
        for partition in offline
        for holder in partition.holders
        if is_emptied(emptied, partition, holder)
        for example in partition.examples
        if emptied.others(holder.id, example.topic_id)
    )
    leading = (
        (leader, directory)
        for of_node in stopped_first.values()
        for leader, directories in of_node.items()
        for directory in directories
    )
    return _by_node(chain(waiting, leading))


def led_at_a_start(quorum: Quorum, offline: Iterable[PartitionSum], emptied: Emptied) -> Mapping[NodeId, Directories]:
    """Returns the brokers that are down and lead partitions with further replicas when they start, by these.

    A broker that starts without the log directory of one has it created again, empty, and leads it: the others truncate
    theirs (KIP-858).
    """
    return _by_node(
        (holder.id, _directory(example.topic, example.topic_id, example.partition))
        for partition in offline
        if len(partition.holders) + len(partition.others) > 1
        for holder in partition.holders
        if not is_emptied(emptied, partition, holder)
        if (broker := quorum.brokers.get(holder.id)) is not None and not broker.alive and broker.log_dirs
        for example in partition.examples
    )


def only_in_sync_copies(recoveries: Iterable[Recovery]) -> Mapping[NodeId, Directories]:
    """Returns the brokers that lead RECOVERING partitions as the only in-sync replica, with the directories."""
    led = (recovery for recovery in recoveries if len(recovery.replicas) > 1 and not recovery.emptied)
    return _by_node((recovery.leader, _recovering(recovery)) for recovery in led if recovery.leader is not None)


def elected_recovered(quorum: Quorum) -> Mapping[NodeId, Directories]:
    """Returns the brokers that were elected in the last hour for partitions whose recovery that ended (KIP-704)."""
    newest = quorum.newest_timestamp_ms or START
    recent = (
        election for election in quorum.history.elected_recovered if newest - election.timestamp_ms <= REMEMBERED_MS
    )
    return _by_node(
        (election.leader, _directory(election.topic, election.topic_id, election.partition)) for election in recent
    )


def _by_both(
    found: Iterable[tuple[NodeId, NodeId, PartitionDirectory]],
) -> Mapping[NodeId, Mapping[NodeId, Directories]]:
    by_node: dict[NodeId, list[tuple[NodeId, PartitionDirectory]]] = {}
    for node, other, directory in found:
        by_node.setdefault(node, []).append((other, directory))
    return {node: _by_node(of_node) for node, of_node in by_node.items()}


def _by_node(
    held: Iterable[tuple[NodeId, PartitionDirectory]],
) -> Mapping[NodeId, Directories]:
    found: dict[NodeId, set[PartitionDirectory]] = {}
    for node, directory in held:
        found.setdefault(node, set()).add(directory)
    return {node: frozenset(directories) for node, directories in found.items()}


def _recovering(recovery: Recovery) -> PartitionDirectory:
    return _directory(recovery.topic, recovery.topic_id, recovery.partition)


def _has_not_run_since(quorum: Quorum, node: NodeId, offset: Offset) -> bool:
    """Returns whether a broker does not run, and registered last before this offset: each start registers it again."""
    broker = quorum.brokers.get(node)
    return broker is None or (broker.at.offset < offset and (broker.fenced or broker.in_controlled_shutdown))


def _directory(topic: str | None, topic_id: TopicId, partition: int) -> PartitionDirectory:
    text = f"partition {partition} of topic {topic_id}" if topic is None else f"{topic}-{partition}"
    return PartitionDirectory(topic or topic_id, partition, text)


def _holders(quorum: Quorum, recovery: Recovery) -> set[NodeId]:
    # A replica that runs has truncated its log to that of a leader without records; `_beside_emptied` has the others.
    if recovery.last_leader or (recovery.emptied and recovery.leader is not None):
        return set()
    known = () if recovery.emptied else {*(recovery.previous_isr or ()), *(recovery.previous_elr or ())}
    copied = {*recovery.replicas} - {*recovery.added}
    further = {node for node in copied if not known or _has_not_run_since(quorum, node, recovery.since_offset)}
    return {*known, *further} - {recovery.leader, *recovery.isr}
