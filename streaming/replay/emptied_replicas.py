"""Replicas that a broker has created again in other log directories (KIP-858), although no other replica is whole.

A broker that starts without a directory registers the others, and creates the logs of that directory's replicas in one
of them: empty, unless their files were moved there. It reports the new directory of each (AssignReplicasToDirs), and
the controller changes the partition. A move between directories that are both online loses nothing.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from rules.model.history import EmptiedReplicas, RecentHistory
from rules.model.identifiers import DirectoryId, Millis, NodeId, Offset, TopicId
from rules.model.membership import RecordPosition
from streaming.replay.directory_numbers import DirectoryNumbers
from streaming.replay.image import Image
from streaming.replay.recent_history import NODES, PARTITIONS, STARTS_REMEMBERED_MS, TOPICS
from streaming.replay.stored_topics import Assignment


class EmptiedReplica(NamedTuple):
    """One replica that its broker has created again in another directory."""

    broker: NodeId
    topic_id: TopicId
    topic: str | None
    partition: int
    lost: DirectoryId
    directory: DirectoryId
    others: tuple[NodeId, ...]
    registered_offset: Offset
    offset: Offset
    timestamp_ms: Millis


class Emptied:
    """The emptied replicas of the observation that is applied, and those of the log's history."""

    def __init__(self) -> None:
        self.found: dict[tuple[NodeId, TopicId, int], EmptiedReplica] = {}
        """Those of the observation."""
        self._history: tuple[EmptiedReplicas, ...] = ()
        self._known: dict[tuple[NodeId, TopicId], EmptiedReplicas] = {}

    def note(
        self,
        key: tuple[TopicId, int],
        topic: str | None,
        before: Assignment,
        now: Assignment,
        at: RecordPosition,
        image: Image,
        directories: DirectoryNumbers,
    ) -> None:
        """Notes the replicas that moved out of a directory which their broker has no more, while none other was whole.

        The broker led then, or was the only one in the ISR and ELR, or the last leader if those are empty (KIP-966).
        After a clean shutdown it reports its directories before it registers, with the former broker epoch (4.3.1): it
        is noted too that it moved out of one that is still registered, and `EmptiedReplicas.returned` until it is not.
        """
        brokers, now_in = image.brokers, dict(zip(now.replicas, now.directories, strict=False))
        eligible = {*before.isr, *before.elr} or {*before.last_known_elr}
        for node, number in zip(before.replicas, before.directories, strict=False):
            into = now_in.get(node, number)
            if into == number or node not in brokers or (before.leader != node and eligible != {node}):
                continue
            online = brokers[node].log_dirs
            lost, directory = directories.directory(node, number), directories.directory(node, into)
            if lost is None or directory is None or (lost in online and directory in online):
                continue
            before_it = self._lost(node, key, lost, image)
            self.found.pop((node, *key), None)
            if directory not in before_it:
                self.found[node, *key] = EmptiedReplica(
                    broker=node,
                    topic_id=key[0],
                    topic=topic,
                    partition=key[1],
                    # Emptied again: its records are in the first one, unless the log does not show which that was.
                    lost=before_it[0] if len(before_it) == 1 else lost,
                    directory=directory,
                    others=tuple(replica for replica in now.replicas if replica != node),
                    registered_offset=brokers[node].at.offset,
                    offset=at.offset,
                    timestamp_ms=at.timestamp_ms,
                )

    def contains(self, broker: NodeId, key: tuple[TopicId, int], image: Image) -> bool:
        """Returns whether this replica may have been emptied, and its directory is not back."""
        if found := self.found.get((broker, *key)):
            return broker not in image.brokers or found.lost not in image.brokers[broker].log_dirs
        known = self._in_history(broker, key[0], image)
        if known is None or known.returned(image.brokers):
            return False
        return key[1] in known.numbers or known.partitions > len(known.numbers)

    def remove_topic(self, topic_id: TopicId) -> None:
        """Drops the replicas of a topic that was deleted."""
        self.found = {key: replica for key, replica in self.found.items() if replica.topic_id != topic_id}

    def _lost(
        self, broker: NodeId, key: tuple[TopicId, int], held: DirectoryId, image: Image
    ) -> tuple[DirectoryId, ...]:
        """Returns the directories in which the records of a replica are that was created again in this one before."""
        if found := self.found.get((broker, *key)):
            return (found.lost,)
        known = self._in_history(broker, key[0], image)
        return known.lost if known is not None and held in known.directories else ()

    def _in_history(self, broker: NodeId, topic_id: TopicId, image: Image) -> EmptiedReplicas | None:
        if self._history is not image.history.emptied:
            self._history = image.history.emptied
            self._known = {(replicas.broker, replicas.topic_id): replicas for replicas in self._history}
        return self._known.get((broker, topic_id))


def with_emptied(history: RecentHistory, emptied: Iterable[EmptiedReplica]) -> RecentHistory:
    """Adds emptied replicas, summed by broker and topic; those of an earlier start of the broker are replaced."""
    known = {(replicas.broker, replicas.topic_id): replicas for replicas in history.emptied}
    newest = Millis(0)
    for replica in emptied:
        # The newest one is last.
        previous = known.pop((replica.broker, replica.topic_id), None)
        known[replica.broker, replica.topic_id] = _with(previous, replica)
        newest = max(newest, replica.timestamp_ms)
    recent = [replicas for replicas in known.values() if abs(replicas.timestamp_ms - newest) <= STARTS_REMEMBERED_MS]
    return replace(history, emptied=tuple(recent[-TOPICS:]))


def without_topic(history: RecentHistory, topic_id: TopicId) -> RecentHistory:
    """Drops what is known of a topic that was deleted."""
    return replace(history, emptied=tuple(replicas for replicas in history.emptied if replicas.topic_id != topic_id))


def _with(previous: EmptiedReplicas | None, one: EmptiedReplica) -> EmptiedReplicas:
    same = previous
    if same is not None and same.registered_offset != one.registered_offset and one.directory not in same.directories:
        same = None
    numbers = {*(same.numbers if same else ())}
    return EmptiedReplicas(
        broker=one.broker,
        topic_id=one.topic_id,
        topic=one.topic,
        partitions=(same.partitions if same else 0) + (one.partition not in numbers),
        numbers=tuple(sorted({*numbers, one.partition})[:PARTITIONS]),
        lost=tuple(sorted({*(same.lost if same else ()), one.lost})[:NODES]),
        directories=tuple(sorted({*(same.directories if same else ()), one.directory})[:NODES]),
        others=tuple(sorted({*(same.others if same else ()), *one.others})[:NODES]),
        registered_offset=one.registered_offset,
        offset=same.offset if same else one.offset,
        timestamp_ms=one.timestamp_ms,
    )
