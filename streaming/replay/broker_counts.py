"""BrokerSums: how many partitions have a replica on each broker, and how many each leads.

A change costs two entries of a counter. All partitions are read only when the topics are restored, and for examples
when a broker that holds replicas is no longer registered, or one that is not alive begins to lead.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Final

from rules.model.history import BrokerPartitions, TopicPartition
from rules.model.identifiers import NodeId, TopicId
from rules.model.membership import BrokerRegistration
from streaming.replay.stored_topics import Assignment, Topic

MOST_COUNTED: Final = 10_000
"""Brokers that are not alive of which replicas are reported, the first ones by node id."""
_MOST_EXAMPLES: Final = 20
_Key = tuple[TopicId, int]


class BrokerSums:
    """The counts of one log."""

    def __init__(self, topics: Iterable[Topic], known: Iterable[BrokerPartitions] = ()) -> None:
        """`known`: what `down` returned when the topics were stored."""
        self._changes: Counter[tuple[tuple[NodeId, ...], NodeId | None]] = Counter(
            (held.replicas, held.leader) for topic in topics for held in topic.partitions.values()
        )
        """By replicas and leader, since `_replicas` and `_leads` were last updated."""
        self._replicas: Counter[NodeId] = Counter()
        self._leads: Counter[NodeId] = Counter()
        self._found = (*known,)
        self._examples = {
            partitions.broker: (
                partitions.leads > 0,
                {(example.topic_id, example.partition) for example in partitions.examples},
            )
            for partitions in self._found
        }
        """Of the brokers that need some: whether of partitions that it leads, and those."""
        self._add_changes()

    @property
    def changed(self) -> bool:
        """Whether a partition has changed since `down` was called."""
        return bool(self._changes)

    def change(self, key: _Key, before: Assignment | None, now: Assignment | None) -> None:
        """Counts a partition that has changed; None: it is unknown, or removed."""
        if before is not None and now is not None and before.replicas == now.replicas and before.leader == now.leader:
            return
        if before is not None:
            self._changes[before.replicas, before.leader] -= 1
        if now is not None:
            self._changes[now.replicas, now.leader] += 1
        for node, (leads, examples) in self._examples.items():
            if _is_example(node, now, leads=leads):
                _add(examples, key)
            else:
                examples.discard(key)

    def down(
        self, brokers: Mapping[NodeId, BrokerRegistration], topics: Callable[[], Mapping[TopicId, Topic]]
    ) -> tuple[BrokerPartitions, ...]:
        """Returns the partitions of the brokers that are not registered, fenced or shutting down, by node id.

        The same object while nothing changes.
        """
        self._add_changes()
        gone = {*self._replicas} - brokers.keys()
        away = gone | {broker.id for broker in brokers.values() if broker.fenced or broker.in_controlled_shutdown}
        listed = [node for node in sorted(away) if self._replicas[node] or self._leads[node]][:MOST_COUNTED]
        wanted = {
            node: self._leads[node] > 0
            for node in listed
            if node in gone or (brokers[node].fenced and self._leads[node] > 0)
        }
        self._find_examples(wanted, topics)
        found = tuple(self._frozen(node, topics) for node in listed)
        if found != self._found:
            self._found = found
        return self._found

    def _add_changes(self) -> None:
        for (replicas, leader), count in self._changes.items():
            for node in replicas if count else ():
                self._replicas[node] += count
            if leader is not None and count:
                self._leads[leader] += count
        self._changes.clear()
        for counts in (self._replicas, self._leads):
            for node in [node for node, count in counts.items() if not count]:
                del counts[node]

    def _find_examples(self, wanted: Mapping[NodeId, bool], topics: Callable[[], Mapping[TopicId, Topic]]) -> None:
        """Forgets the examples that are not wanted, and finds those of brokers that have none: the first by key."""
        self._examples = {node: one for node, one in self._examples.items() if wanted.get(node) is one[0] and one[1]}
        new = {node: (leads, set[_Key]()) for node, leads in wanted.items() if node not in self._examples}
        for topic_id, topic in sorted(topics().items(), key=itemgetter(0)) if new else ():
            for number, held in sorted(topic.partitions.items(), key=itemgetter(0)):
                for node in new.keys() & {*held.replicas, held.leader}:
                    leads, examples = new[node]
                    if _is_example(node, held, leads=leads):
                        _add(examples, (topic_id, number))
        self._examples |= new

    def _frozen(self, node: NodeId, topics: Callable[[], Mapping[TopicId, Topic]]) -> BrokerPartitions:
        _, examples = self._examples.get(node, (False, ()))
        named = [(key, topics().get(key[0])) for key in sorted(examples)]
        return BrokerPartitions(
            broker=node,
            replicas=self._replicas[node],
            leads=self._leads[node],
            examples=tuple(
                TopicPartition(topic_id=topic_id, topic=None if topic is None else topic.name, partition=number)
                for (topic_id, number), topic in named
            ),
        )


def _is_example(node: NodeId, one: Assignment | None, *, leads: bool) -> bool:
    return one is not None and (one.leader == node if leads else node in one.replicas)


def _add(examples: set[_Key], key: _Key) -> None:
    if len(examples) < _MOST_EXAMPLES:
        examples.add(key)
