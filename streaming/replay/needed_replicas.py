"""By broker, the partitions that need its replica in sync (NeededReplicas), and those of which it is not (OutOfSync).

Needed: without it they would be below min.insync.replicas or have no leader. They are sums: nothing is kept for a
partition, and a change of one moves it from some sums to others. Where every replica is in sync, and one more than a
partition needs, there are none, and a change costs nothing.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import Final, NamedTuple

from rules.model.history import NeededReplica, OutOfSyncReplicas, TopicPartition
from rules.model.identifiers import NodeId, TopicId
from streaming.replay.stored_topics import Assignment

_MOST_EXAMPLES: Final = 5
Key = tuple[TopicId, int]


class ReplicaNeed(NamedTuple):
    """How many replicas a partition has, how many of them are in sync, and how many must be."""

    replicas: int
    in_sync: int
    min_isr: int | None
    """None: the log has no min.insync.replicas of its topic or of the cluster."""
    eligible: bool
    """Whether it has eligible leader replicas (KIP-966)."""


def is_whole(one: Assignment | None, min_isr: int | None) -> bool:
    """Returns whether all replicas of a partition are in sync and none is needed, or it is unknown or removed."""
    if one is None:
        return True
    in_sync = len(one.isr)
    return one.leader is not None and min_isr is not None and in_sync > min_isr and in_sync == len(one.replicas)


def out_of_sync(one: Assignment | None) -> tuple[NodeId, ...]:
    """Returns the replicas of a partition with a leader that are not in sync."""
    if one is None or one.leader is None or len(one.isr) == len(one.replicas):
        return ()
    return tuple(node for node in one.replicas if node not in one.isr)


def need_of(one: Assignment | None, min_isr: int | None) -> ReplicaNeed | None:
    """Returns what a partition needs of its in-sync replicas; None if it has no leader, or one of them to spare.

    More than there are replicas are not needed (Partition.effectiveMinIsr).
    """
    if one is None or one.leader is None:
        return None
    replicas, in_sync = len(one.replicas), len(one.isr)
    if min_isr is not None and in_sync > min(min_isr, replicas):
        return None
    return _need(replicas, in_sync, min_isr, bool(one.elr))


@lru_cache(maxsize=1 << 10)
def _need(replicas: int, in_sync: int, min_isr: int | None, eligible: bool) -> ReplicaNeed:  # noqa: FBT001 - a field
    """Returns one object for equal needs: there are few, and its constructor takes long."""
    return ReplicaNeed(replicas, in_sync, min_isr, eligible)


@dataclass(slots=True)
class _Sum:
    partitions: int = 0
    missing: Counter[NodeId] = field(default_factory=Counter)
    examples: dict[Key, str | None] = field(default_factory=dict)
    """The topics' names."""


class NeededReplicas:
    """The sums of one log."""

    def __init__(self, stored: tuple[NeededReplica, ...] = ()) -> None:
        """`stored` is what `current` returned."""
        self._sums: dict[NodeId, dict[ReplicaNeed, _Sum]] = {}
        self._frozen: dict[NodeId, tuple[NeededReplica, ...]] = {}
        """Those of the brokers whose sums have not changed since."""
        self._current: tuple[NeededReplica, ...] | None = stored
        self._undecided: Counter[tuple[tuple[NodeId, ...], ReplicaNeed]] = Counter()
        """By ISR, partitions in sync whose min.insync.replicas is not known, since `current`: often all of a cluster.

        They have no examples: what they need is asked of people, whatever they are.
        """
        for one in stored:
            need = _need(one.replicas, one.in_sync, one.min_isr, one.eligible)
            examples = {(example.topic_id, example.partition): example.topic for example in one.examples}
            self._sums.setdefault(one.broker, {})[need] = _Sum(one.partitions, Counter(dict(one.missing)), examples)

    @property
    def current(self) -> tuple[NeededReplica, ...]:
        """The sums, ordered by broker; the same object while nothing changes."""
        if self._current is None:
            for (isr, need), count in self._undecided.items():
                for node in isr if count else ():
                    self._add(node, need, count)
            self._undecided.clear()
            for node in self._sums.keys() - self._frozen.keys():
                self._frozen[node] = _frozen(node, self._sums[node])
            self._current = tuple(chain.from_iterable(self._frozen[node] for node in sorted(self._sums)))
        return self._current

    def changed(
        self,
        key: Key,
        topic: str | None,
        before: tuple[ReplicaNeed | None, Assignment | None],
        now: tuple[ReplicaNeed | None, Assignment | None],
    ) -> None:
        """Counts a partition that has changed, by what it needs before and now; None: nothing."""
        (was, held), (is_, holds) = before, now
        if was == is_ and (is_ is None or _same(held, holds)):
            return
        for need, one, count in ((was, held, -1), (is_, holds, 1)):
            if need is None or one is None:
                continue
            if need.min_isr is None and need.in_sync == need.replicas:
                self._undecided[one.isr, need] += count
                continue
            missing = out_of_sync(one)
            for node in one.isr:
                self._add(node, need, count, missing, {key: topic})
        self._current = None

    def add_undecided(self, counts: Mapping[tuple[NodeId, ...], int]) -> None:
        """Counts partitions in sync whose min.insync.replicas is not known, by ISR."""
        for isr, count in counts.items():
            self._undecided[isr, _need(len(isr), len(isr), None, eligible=False)] += count
        self._current = None

    def _add(
        self,
        node: NodeId,
        need: ReplicaNeed,
        count: int,
        missing: tuple[NodeId, ...] = (),
        partition: Mapping[Key, str | None] = MappingProxyType({}),
    ) -> None:
        sums = self._sums.setdefault(node, {})
        one = sums.get(need)
        if one is None:
            one = sums[need] = _Sum()
        one.partitions += count
        for other in missing:
            one.missing[other] += count
        for key, topic in partition.items():
            if count < 0:
                one.examples.pop(key, None)
            elif len(one.examples) < _MOST_EXAMPLES:
                one.examples[key] = topic
        self._frozen.pop(node, None)
        if one.partitions <= 0:
            del sums[need]
            if not sums:
                del self._sums[node]


class OutOfSync:
    """The counts of one log."""

    def __init__(self, stored: tuple[OutOfSyncReplicas, ...] = ()) -> None:
        """`stored` is what `current` returned."""
        self._current: tuple[OutOfSyncReplicas, ...] | None = stored
        self._counts = Counter({one.broker: one.partitions for one in stored})
        self._examples: dict[NodeId, dict[Key, str | None]] = {
            one.broker: {(example.topic_id, example.partition): example.topic for example in one.examples}
            for one in stored
        }

    @property
    def current(self) -> tuple[OutOfSyncReplicas, ...]:
        """The counts, ordered by broker; the same object while nothing changes."""
        if self._current is None:
            self._current = tuple(
                OutOfSyncReplicas(broker=node, partitions=count, examples=_examples(self._examples.get(node, {})))
                for node, count in sorted(self._counts.items())
            )
        return self._current

    def changed(self, key: Key, topic: str | None, held: Assignment | None, now: Assignment | None) -> None:
        """Counts a partition that has changed; None: it is unknown, or removed."""
        before, after = out_of_sync(held), out_of_sync(now)
        if before == after:
            return
        for node in before:
            self._counts[node] -= 1
            self._examples.get(node, {}).pop(key, None)
            if self._counts[node] <= 0:
                del self._counts[node]
                self._examples.pop(node, None)
        for node in after:
            self._counts[node] += 1
            examples = self._examples.setdefault(node, {})
            if len(examples) < _MOST_EXAMPLES:
                examples[key] = topic
        self._current = None


def _same(held: Assignment | None, holds: Assignment | None) -> bool:
    return held is not None and holds is not None and (held.isr, held.replicas) == (holds.isr, holds.replicas)


def _frozen(node: NodeId, sums: dict[ReplicaNeed, _Sum]) -> tuple[NeededReplica, ...]:
    ordered = sorted(sums.items(), key=lambda each: (each[0].min_isr or 0, *each[0][:2], each[0].eligible))
    return tuple(
        NeededReplica(
            broker=node,
            replicas=need.replicas,
            in_sync=need.in_sync,
            min_isr=need.min_isr,
            eligible=need.eligible,
            partitions=one.partitions,
            missing=tuple(sorted((other, count) for other, count in one.missing.items() if count > 0)),
            examples=_examples(one.examples),
        )
        for need, one in ordered
    )


def _examples(found: dict[Key, str | None]) -> tuple[TopicPartition, ...]:
    # Sorted: records that are applied together change partitions in another order.
    return tuple(
        TopicPartition(topic_id=topic_id, topic=topic, partition=partition)
        for (topic_id, partition), topic in sorted(found.items())
    )
