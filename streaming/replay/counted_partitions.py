"""CountedPartitions: the partitions without a leader, or below min.insync.replicas, counted by the replicas they need.

A broker may hold a hundred thousand partitions: nothing is kept for each of them. Which sum counts a partition follows
from its Assignment (and min.insync.replicas) alone, so a change takes it from one sum and adds it to another.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from rules.model.history import PartitionSum, TopicPartition
from rules.model.identifiers import DirectoryId, Millis, NodeId, ReplicaKey, TopicId
from rules.model.membership import RecordPosition
from streaming.replay.directory_numbers import MIGRATING, DirectoryNumbers
from streaming.replay.stored_topics import Assignment

Holders: TypeAlias = tuple[tuple[NodeId, DirectoryId | None], ...]
MOST_SUMS: Final = 10_000
"""Further partitions are counted with those of which the log names no holder, until all are counted again."""
_MOST_EXAMPLES: Final = 20


@dataclass(slots=True)
class _Sum:
    since_timestamp_ms: Millis
    at_least: bool
    partitions: int = 0
    examples: dict[tuple[TopicId, int], str | None] = field(default_factory=dict)
    """The topics' names."""
    others: Counter[NodeId] = field(default_factory=Counter)


class CountedPartitions:
    """The sums of one log."""

    def __init__(self, stored: tuple[PartitionSum, ...] = ()) -> None:
        """`stored` is what `current` returned."""
        self._sums = {
            tuple((holder.id, holder.directory_id) for holder in partition.holders): _Sum(
                partition.since_timestamp_ms,
                partition.at_least,
                partition.partitions,
                {(example.topic_id, example.partition): example.topic for example in partition.examples},
                Counter(dict(partition.others)),
            )
            for partition in stored
        }
        self._current: tuple[PartitionSum, ...] | None = stored
        full = len(stored) > MOST_SUMS
        self.overflowed_ms = min(partition.since_timestamp_ms for partition in stored) if full else None
        """Since when a partition may be counted in another sum than that of its holders; None: none is.

        Then all partitions must be counted again.
        """

    def __bool__(self) -> bool:
        return bool(self._sums)

    @property
    def current(self) -> tuple[PartitionSum, ...]:
        """The sums, ordered by holders; the same object while nothing changes."""
        if self._current is None:
            frozen = (_frozen(holders, counted) for holders, counted in self._sums.items())
            self._current = tuple(sorted(frozen, key=lambda one: one.holders))
        return self._current

    def changed(
        self,
        key: tuple[TopicId, int],
        topic: str | None,
        before: tuple[Holders | None, Assignment | None],
        now: tuple[Holders | None, Assignment | None],
        at: RecordPosition,
    ) -> None:
        """Counts a partition that has changed, by its holders before and now; None: it is not counted then."""
        (was, held), (is_, holds) = before, now
        of_before = () if held is None else held.replicas
        of_now = () if holds is None else holds.replicas
        if was == is_:
            if is_ is None or of_before == of_now:
                return
            counted = self._sums.get(is_ if is_ in self._sums else ())
            if counted is not None:
                counted.others.subtract(_others(is_, of_before))
                counted.others.update(_others(is_, of_now))
        else:
            if was is not None:
                self._remove(was, of_before, key)
            if is_ is not None:
                self._add(is_, of_now, key, topic, at)
        self._current = None

    def _add(
        self,
        holders: Holders,
        replicas: tuple[NodeId, ...],
        key: tuple[TopicId, int],
        topic: str | None,
        at: RecordPosition,
    ) -> None:
        if holders not in self._sums:
            if len(self._sums) >= MOST_SUMS:
                holders, self.overflowed_ms = (), at.timestamp_ms
            self._sums.setdefault(holders, _Sum(at.timestamp_ms, at.snapshot))
        counted = self._sums[holders]
        counted.partitions += 1
        counted.others.update(_others(holders, replicas))
        if len(counted.examples) < _MOST_EXAMPLES:
            counted.examples[key] = topic

    def _remove(self, holders: Holders, replicas: tuple[NodeId, ...], key: tuple[TopicId, int]) -> None:
        holders = holders if holders in self._sums else ()
        counted = self._sums.get(holders)
        if counted is not None:
            counted.partitions -= 1
            counted.others.subtract(_others(holders, replicas))
            counted.examples.pop(key, None)
            if counted.partitions <= 0:
                del self._sums[holders]


def _frozen(holders: Holders, counted: _Sum) -> PartitionSum:
    return PartitionSum(
        holders=tuple(ReplicaKey(id=node, directory_id=directory) for node, directory in holders),
        partitions=counted.partitions,
        since_timestamp_ms=counted.since_timestamp_ms,
        at_least=counted.at_least,
        # Sorted: records that are applied together change partitions in another order.
        examples=tuple(
            TopicPartition(topic_id=topic_id, topic=topic, partition=partition)
            for (topic_id, partition), topic in sorted(counted.examples.items())
        ),
        others=tuple(sorted((node, count) for node, count in counted.others.items() if count > 0)),
    )


def _others(holders: Holders, replicas: tuple[NodeId, ...]) -> list[NodeId]:
    eligible = [node for node, _ in holders]
    return [node for node in replicas if node not in eligible]


def eligible(one: Assignment | None, directories: DirectoryNumbers) -> Holders | None:
    """Returns the replicas that may become the leader of a partition without one; None if it has one, or is unknown."""
    if one is None or one.leader is not None or one.leader_epoch is None:
        return None
    return _with_directories({*one.isr, *one.elr} or {*one.last_known_elr}, one, directories)


def missing(one: Assignment | None, min_isr: int, directories: DirectoryNumbers) -> Holders | None:
    """Returns the replicas that are not in sync of a partition below min.insync.replicas that has a leader, else None.

    More than there are replicas are not needed (Partition.effectiveMinIsr).
    """
    if one is None or one.leader is None or len(one.isr) >= min(min_isr, len(one.replicas)):
        return None
    return _with_directories({*one.replicas} - {*one.isr}, one, directories)


def _with_directories(nodes: set[NodeId], one: Assignment, directories: DirectoryNumbers) -> Holders:
    number_of = dict(zip(one.replicas, one.directories, strict=False))
    return tuple((node, directories.directory(node, number_of.get(node, MIGRATING))) for node in sorted(nodes))
