"""Partitions: every partition in the log, and which of them are RECOVERING (KIP-704).

All partitions are kept, because a PartitionChangeRecord holds only the changed fields: the in-sync replicas before an
unclean election are in an earlier record.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from connectors.log_event import PartitionChanged, PartitionSet, RecordPosition
from rules.model.history import ElectedRecovered, Recovery
from rules.model.identifiers import Epoch, Millis, NodeId, Offset, TopicId
from streaming.replay import topic_codec
from streaming.replay.recent_history import UncleanElection
from streaming.replay.topic_codec import Assignment, Topic


class SnapshotOrigin(NamedTuple):
    """The latest possible position of a snapshot's records: the snapshot's last contained offset."""

    offset: Offset
    leader_epoch: Epoch
    timestamp_ms: Millis


class Partitions:
    """Topics by id, and the partitions whose leader is recovering.

    The topics are large and change rarely: they are unpacked only when an event needs them, and packed again only after
    a change. `recovering` is small and is stored separately.
    """

    __slots__ = ("_interned", "_packed", "_recovering", "_sorted_recovering", "_topics", "elected_recovered", "unclean")

    def __init__(self, *, recovering: tuple[Recovery, ...] = (), packed: bytes | None = None) -> None:
        self._topics: dict[TopicId, Topic] | None = {} if packed is None else None
        self._packed = packed
        self._recovering: dict[tuple[TopicId, int], Recovery] = {(r.topic_id, r.partition): r for r in recovering}
        self._sorted_recovering: tuple[Recovery, ...] | None = recovering
        self._interned: dict[tuple[NodeId, ...], tuple[NodeId, ...]] = {}
        self.elected_recovered: list[ElectedRecovered] = []
        """Ends of a recovery by an election since `Log.end_observation` last cleared the list."""
        self.unclean: list[UncleanElection] = []
        """Unclean elections since `Log.end_observation` last cleared the list."""

    @property
    def recovering(self) -> tuple[Recovery, ...]:
        """Partitions whose leader is recovering, ordered by topic name, topic id, partition."""
        if self._sorted_recovering is None:
            order = sorted(self._recovering.values(), key=lambda r: (r.topic or "", r.topic_id, r.partition))
            self._sorted_recovering = tuple(order)
        return self._sorted_recovering

    @property
    def topics(self) -> Mapping[TopicId, Topic]:
        """Every topic by its id."""
        return self._unpacked()

    def pack(self) -> bytes:
        """Returns all topics as bytes; the original bytes if nothing changed."""
        if self._packed is None:
            self._packed = topic_codec.pack(self._unpacked())
        return self._packed

    def create(self, topic_id: TopicId, name: str) -> None:
        """Applies a TopicRecord: a topic has this name."""
        topic = self._topic(topic_id)
        topic.name = name
        for partition in topic.partitions if self._recovering else ():
            known = self._recovering.get((topic_id, partition))
            if known is not None:
                self._recovering[topic_id, partition] = replace(known, topic=name)
                self._sorted_recovering = None

    def remove(self, topic_id: TopicId) -> None:
        """Applies a RemoveTopicRecord: drops the topic and its partitions."""
        removed = self._unpacked_for_change().pop(topic_id, None)
        if removed is None or not self._recovering:
            return
        for partition in removed.partitions:
            self._end_recovery((topic_id, partition))

    def clear_elr(self, name: str | None) -> None:
        """Applies a ClearElrRecord: clears the ELRs of the topic with this name, or of every topic if None (KIP-966).

        For a partition with an ELR it counts as a change (TopicDelta.maybeClearElr).
        """
        for topic_id, topic in self._unpacked_for_change().items():
            if name is not None and topic.name != name:
                continue
            for partition, known in topic.partitions.items():
                if known.elr or known.last_known_elr:
                    epoch = _raised(known.partition_epoch)
                    topic.partitions[partition] = known._replace(elr=(), last_known_elr=(), partition_epoch=epoch)
                    recovery = self._recovering.get((topic_id, partition))
                    if recovery is not None:
                        self._recovering[topic_id, partition] = replace(recovery, partition_epoch=epoch)
                        self._sorted_recovering = None

    def set(self, event: PartitionSet, origin: RecordPosition | SnapshotOrigin) -> None:
        """Applies a PartitionRecord: a whole partition."""
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
            self._update_recovery(event, topic.name, before, now, origin)

    def change(self, event: PartitionChanged, origin: RecordPosition | SnapshotOrigin) -> None:
        """Applies a PartitionChangeRecord: absent fields are unchanged; epochs rise (PartitionRegistration.merge)."""
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
            self._update_recovery(event, topic.name, before, now, origin)

    def _update_recovery(
        self,
        event: PartitionSet | PartitionChanged,
        topic: str | None,
        before: Assignment | None,
        now: Assignment,
        origin: RecordPosition | SnapshotOrigin,
    ) -> None:
        """Updates the recovering partitions after a partition changed."""
        key = (event.topic_id, event.partition)
        known = self._recovering.get(key)
        if event.recovering is False:
            self._end_recovery(key)
            if known is not None and isinstance(event, PartitionChanged):
                self._record_elected_recovered(known, event, origin)
        elif known is not None:
            self._recovering[key] = _continued(known, before or _UNKNOWN, now, origin)
            self._sorted_recovering = None
            if before is not None and _passed_over(before, now):
                self._record_unclean(key, topic, before, now, origin)
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
                at_least=isinstance(origin, SnapshotOrigin),
                previous_isr=before.isr if before else None,
                previous_elr=before.elr if before else None,
                leader_epoch=now.leader_epoch,
                partition_epoch=now.partition_epoch,
                elected=_elected(event, before) if isinstance(event, PartitionChanged) else None,
            )
            self._sorted_recovering = None
            if isinstance(event, PartitionChanged):
                self._record_unclean(key, topic, before, now, origin)

    def _record_unclean(
        self,
        key: tuple[TopicId, int],
        topic: str | None,
        before: Assignment | None,
        now: Assignment,
        origin: RecordPosition | SnapshotOrigin,
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

    def _record_elected_recovered(
        self, known: Recovery, event: PartitionChanged, origin: RecordPosition | SnapshotOrigin
    ) -> None:
        """Records the end of a recovery if an election ended it: only the leader itself may end it (KIP-704)."""
        if event.leader is None or event.leader == known.leader or event.replicas is not None:
            return
        self.elected_recovered.append(
            ElectedRecovered(
                topic_id=known.topic_id,
                topic=known.topic,
                partition=known.partition,
                leader=event.leader,
                previous_leader=known.leader,
                offset=Offset(origin.offset),
                timestamp_ms=Millis(origin.timestamp_ms),
            )
        )

    def _end_recovery(self, key: tuple[TopicId, int]) -> None:
        if self._recovering.pop(key, None) is not None:
            self._sorted_recovering = None

    def _unpacked(self) -> dict[TopicId, Topic]:
        if self._topics is None:
            assert self._packed is not None, "the topics are packed, unpacked or both"
            self._topics = topic_codec.unpack(self._packed)
        return self._topics

    def _unpacked_for_change(self) -> dict[TopicId, Topic]:
        topics = self._unpacked()
        self._packed = None
        return topics

    def _topic(self, topic_id: TopicId) -> Topic:
        topics = self._unpacked_for_change()
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = Topic()
        return topic

    def _intern(self, nodes: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
        """Returns one tuple for all partitions with the same replicas: there are far fewer of those than partitions."""
        if len(self._interned) > _INTERNED:
            self._interned.clear()
        return self._interned.setdefault(nodes, nodes)


def _continued(
    known: Recovery, before: Assignment, now: Assignment, origin: RecordPosition | SnapshotOrigin
) -> Recovery:
    """Returns a recovery after a change: its start and the in-sync replicas before it are kept.

    An ISR without any replica that was in sync or eligible is another unclean election. Its record does not repeat the
    recovery state (PartitionChangeBuilder), and the passed-over replicas may hold acknowledged records that the new
    leader lacks.
    """
    isr, elr = known.previous_isr, known.previous_elr
    if isr is not None and _passed_over(before, now):
        isr, elr = _union(isr, before.isr), _union(elr or (), before.elr)
    new = tuple(node for node in now.replicas if node not in known.replicas) if known.replicas else ()
    return replace(
        known,
        replicas=now.replicas,
        isr=now.isr,
        leader=now.leader,
        previous_isr=isr,
        previous_elr=elr,
        added=tuple(node for node in (*known.added, *new) if node in now.replicas),
        added_timestamp_ms=Millis(origin.timestamp_ms) if new else known.added_timestamp_ms,
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        leader_changes=known.leader_changes + (now.leader is not None and now.leader != before.leader),
    )


def _passed_over(before: Assignment, now: Assignment) -> bool:
    """Returns whether no replica that is in sync now was in sync or eligible before."""
    holders = {*before.isr, *before.elr}
    return bool(now.isr and holders and holders.isdisjoint(now.isr))


def _elected(event: PartitionChanged, before: Assignment | None) -> bool:
    """Returns whether this record sets a different leader."""
    return event.leader is not None and (before is None or event.leader != before.leader)


def _raised(epoch: int | None) -> int | None:
    return None if epoch is None else epoch + 1


def _union(first: tuple[NodeId, ...], second: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    return (*first, *(node for node in second if node not in first))


_INTERNED = 50_000
_UNKNOWN = Assignment((), (), (), (), None, None, None)
