"""Partitions: every partition the log speaks of, and which of them are RECOVERING (KIP-704).

All partitions are kept, because a PartitionChangeRecord carries only what changes: what the in-sync
replicas were before an unclean election is known only to who remembered them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from connectors.event import At, PartitionChanged, PartitionSet
from rules.model.history import ElectedRecovered, Recovery
from rules.model.identifiers import Epoch, Millis, NodeId, Offset, TopicId
from streaming.replay import topic_codec
from streaming.replay.recent_history import UncleanElection
from streaming.replay.topic_codec import Assignment, Topic


class Origin(NamedTuple):
    """Where and when a snapshot's records stand at the latest: at its last contained offset."""

    offset: Offset
    leader_epoch: Epoch
    timestamp_ms: Millis


class Partitions:
    """Topics by id, and the partitions whose leader is recovering.

    What changes often is small: `recovering` is in the blob's hot part; the topics are unpacked only when an
    event touches them and packed again only after a change.
    """

    __slots__ = ("_interned", "_packed", "_recovering", "_shown", "_topics", "elected_recovered", "unclean")

    def __init__(self, *, recovering: tuple[Recovery, ...] = (), packed: bytes | None = None) -> None:
        self._topics: dict[TopicId, Topic] | None = {} if packed is None else None
        self._packed = packed
        self._recovering: dict[tuple[TopicId, int], Recovery] = {(r.topic_id, r.partition): r for r in recovering}
        self._shown: tuple[Recovery, ...] | None = recovering
        self._interned: dict[tuple[NodeId, ...], tuple[NodeId, ...]] = {}
        self.elected_recovered: list[ElectedRecovered] = []
        """What of this kind came since the list was last cleared, by who keeps the past."""
        self.unclean: list[UncleanElection] = []
        """Likewise."""

    @property
    def recovering(self) -> tuple[Recovery, ...]:
        """Partitions whose leader is recovering, in the order of topic name, topic id, partition."""
        if self._shown is None:
            order = sorted(self._recovering.values(), key=lambda r: (r.topic or "", r.topic_id, r.partition))
            self._shown = tuple(order)
        return self._shown

    @property
    def topics(self) -> Mapping[TopicId, Topic]:
        """Every topic by its id."""
        return self._opened()

    def pack(self) -> bytes:
        """All topics as bytes; the very bytes they came from while nothing has touched them."""
        if self._packed is None:
            self._packed = topic_codec.pack(self._opened())
        return self._packed

    def create(self, topic_id: TopicId, name: str) -> None:
        """TopicRecord: a topic has this name."""
        topic = self._topic(topic_id)
        topic.name = name
        for partition in topic.partitions if self._recovering else ():
            held = self._recovering.get((topic_id, partition))
            if held is not None:
                self._recovering[topic_id, partition] = replace(held, topic=name)
                self._shown = None

    def remove(self, topic_id: TopicId) -> None:
        """RemoveTopicRecord: the topic and its partitions are gone."""
        removed = self._touched().pop(topic_id, None)
        if removed is None or not self._recovering:
            return
        for partition in removed.partitions:
            self._settle((topic_id, partition))

    def clear_elr(self, name: str | None) -> None:
        """ClearElrRecord: the ELRs of the topic with this name (None: of every topic) are forgotten (KIP-966).

        For a partition that has one it counts as a change (TopicDelta.maybeClearElr).
        """
        for topic_id, topic in self._touched().items():
            if name is not None and topic.name != name:
                continue
            for partition, held in topic.partitions.items():
                if held.elr or held.last_known_elr:
                    epoch = _raised(held.partition_epoch)
                    topic.partitions[partition] = held._replace(elr=(), last_known_elr=(), partition_epoch=epoch)
                    recovery = self._recovering.get((topic_id, partition))
                    if recovery is not None:
                        self._recovering[topic_id, partition] = replace(recovery, partition_epoch=epoch)
                        self._shown = None

    def set(self, event: PartitionSet, origin: At | Origin) -> None:
        """PartitionRecord: a partition, whole."""
        topic = self._topic(event.topic_id)
        before = topic.partitions.get(event.partition)
        replicas = self._intern(event.replicas)
        topic.partitions[event.partition] = now = Assignment(
            replicas=replicas,
            isr=replicas if event.isr == replicas else self._intern(event.isr),
            elr=event.elr,
            last_known_elr=event.last_known_elr,
            leader=event.leader,
            leader_epoch=event.partition_leader_epoch,
            partition_epoch=event.partition_epoch,
        )
        if event.recovering or self._recovering:
            self._recover(event, topic.name, before, now, origin)

    def change(self, event: PartitionChanged, origin: At | Origin) -> None:
        """PartitionChangeRecord: what it leaves out is unchanged, the epochs go up (PartitionRegistration.merge)."""
        topic = self._topic(event.topic_id)
        before = topic.partitions.get(event.partition)
        replicas, isr, elr, last_known_elr, leader, leader_epoch, partition_epoch = before or _UNKNOWN
        if event.replicas is not None:
            replicas = self._intern(event.replicas)
        if event.isr is not None:
            isr = replicas if event.isr == replicas else self._intern(event.isr)
        if event.elr is not None:
            elr = event.elr
        if event.last_known_elr is not None:
            last_known_elr = event.last_known_elr
        if event.leader_set:
            leader = event.leader
            leader_epoch = _raised(leader_epoch)
        topic.partitions[event.partition] = now = Assignment(
            replicas, isr, elr, last_known_elr, leader, leader_epoch, _raised(partition_epoch)
        )
        if event.recovering is not None or self._recovering:
            self._recover(event, topic.name, before, now, origin)

    def _recover(
        self,
        event: PartitionSet | PartitionChanged,
        topic: str | None,
        before: Assignment | None,
        now: Assignment,
        origin: At | Origin,
    ) -> None:
        """Keep the list of recovering partitions true after one of them, or one that may join them, changed."""
        key = (event.topic_id, event.partition)
        held = self._recovering.get(key)
        if event.recovering is False:
            self._settle(key)
            if held is not None and isinstance(event, PartitionChanged):
                self._ended(held, event, origin)
        elif held is not None:
            self._recovering[key] = _going_on(held, before or _UNKNOWN, now, origin)
            self._shown = None
            if before is not None and _passed_over(before, now):
                self._unclean(key, topic, before, now, origin)
        elif event.recovering:
            self._recovering[key] = Recovery(
                topic_id=key[0],
                topic=topic,
                partition=key[1],
                replicas=now.replicas,
                isr=now.isr,
                leader=now.leader,
                since_offset=origin.offset,
                since_timestamp_ms=origin.timestamp_ms,
                at_least=isinstance(origin, Origin),
                previous_isr=before.isr if before else None,
                previous_elr=before.elr if before else None,
                leader_epoch=now.leader_epoch,
                partition_epoch=now.partition_epoch,
                elected=_elected(event, before) if isinstance(event, PartitionChanged) else None,
            )
            self._shown = None
            if isinstance(event, PartitionChanged):
                self._unclean(key, topic, before, now, origin)

    def _unclean(
        self,
        key: tuple[TopicId, int],
        topic: str | None,
        before: Assignment | None,
        now: Assignment,
        origin: At | Origin,
    ) -> None:
        holders = () if before is None else _union(before.isr, before.elr)
        self.unclean.append(
            UncleanElection(
                topic_id=key[0],
                topic=topic,
                partition=key[1],
                leader=now.leader,
                passed_over=tuple(node for node in holders if node not in now.isr),
                offset=Offset(origin.offset),
                timestamp_ms=Millis(origin.timestamp_ms),
            )
        )

    def _ended(self, held: Recovery, event: PartitionChanged, origin: At | Origin) -> None:
        """Recovery ended: by its leader, or in the record of an election, which is not how it ends."""
        if event.leader is None or event.leader == held.leader or event.replicas is not None:
            return
        self.elected_recovered.append(
            ElectedRecovered(
                topic_id=held.topic_id,
                topic=held.topic,
                partition=held.partition,
                leader=event.leader,
                previous_leader=held.leader,
                offset=Offset(origin.offset),
                timestamp_ms=Millis(origin.timestamp_ms),
            )
        )

    def _settle(self, key: tuple[TopicId, int]) -> None:
        if self._recovering.pop(key, None) is not None:
            self._shown = None

    def _opened(self) -> dict[TopicId, Topic]:
        if self._topics is None:
            assert self._packed is not None, "the topics are packed, unpacked or both"
            self._topics = topic_codec.unpack(self._packed)
        return self._topics

    def _touched(self) -> dict[TopicId, Topic]:
        opened = self._opened()
        self._packed = None
        return opened

    def _topic(self, topic_id: TopicId) -> Topic:
        opened = self._touched()
        topic = opened.get(topic_id)
        if topic is None:
            topic = opened[topic_id] = Topic()
        return topic

    def _intern(self, nodes: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
        """One tuple for all partitions with the same replicas: there are far fewer of those than partitions."""
        if len(self._interned) > _INTERNED:
            self._interned.clear()
        return self._interned.setdefault(nodes, nodes)


def _going_on(held: Recovery, before: Assignment, now: Assignment, origin: At | Origin) -> Recovery:
    """Already recovering: since when, and what was in sync before, stay what they were.

    An ISR with nobody who was in sync or eligible is another unclean election: its record does not repeat the state
    (PartitionChangeBuilder), and those had acknowledged records that the new leader may not have.
    """
    isr, elr = held.previous_isr, held.previous_elr
    if isr is not None and _passed_over(before, now):
        isr, elr = _union(isr, before.isr), _union(elr or (), before.elr)
    new = tuple(node for node in now.replicas if node not in held.replicas) if held.replicas else ()
    return replace(
        held,
        replicas=now.replicas,
        isr=now.isr,
        leader=now.leader,
        previous_isr=isr,
        previous_elr=elr,
        added=tuple(node for node in (*held.added, *new) if node in now.replicas),
        added_timestamp_ms=Millis(origin.timestamp_ms) if new else held.added_timestamp_ms,
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        leader_changes=held.leader_changes + (now.leader is not None and now.leader != before.leader),
    )


def _passed_over(before: Assignment, now: Assignment) -> bool:
    """Nobody who is in sync now was in sync or eligible before."""
    holders = {*before.isr, *before.elr}
    return bool(now.isr and holders and holders.isdisjoint(now.isr))


def _elected(event: PartitionChanged, before: Assignment | None) -> bool:
    """Whether this record names another leader than there was."""
    return event.leader is not None and (before is None or event.leader != before.leader)


def _raised(epoch: int | None) -> int | None:
    return None if epoch is None else epoch + 1


def _union(first: tuple[NodeId, ...], second: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    return (*first, *(node for node in second if node not in first))


_INTERNED = 50_000
_UNKNOWN = Assignment((), (), (), (), None, None, None)
