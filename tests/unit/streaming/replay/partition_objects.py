"""PartitionObjects: partitions replayed one record after the other, each as an object: the reference of the table."""

from dataclasses import replace

from connectors.log_event import PartitionChanged, PartitionSet, RecordPosition
from rules.model.history import ElectedRecovered, Recovery
from rules.model.identifiers import Millis, Offset, TopicId
from streaming.replay.assignment import Assignment
from streaming.replay.recent_history import UncleanElection
from streaming.replay.recovery_change import UNKNOWN, continued, passed_over, raised, recovery_began, unclean_election
from streaming.replay.snapshot_origin import SnapshotOrigin
from streaming.replay.topic import Topic


class PartitionObjects:
    """Topics by id, and the partitions whose leader is recovering, as Python objects."""

    def __init__(self) -> None:
        self.topics: dict[TopicId, Topic] = {}
        self._recovering: dict[tuple[TopicId, int], Recovery] = {}
        self._returned: tuple[Recovery, ...] = ()
        self.elected_recovered: list[ElectedRecovered] = []
        self.unclean: list[UncleanElection] = []

    @property
    def recovering(self) -> tuple[Recovery, ...]:
        now = tuple(sorted(self._recovering.values(), key=lambda r: (r.topic or "", r.topic_id, r.partition)))
        if now != self._returned:
            self._returned = now
        return self._returned

    def create(self, topic_id: TopicId, name: str) -> None:
        """Applies a TopicRecord: a topic has this name."""
        topic = self._topic(topic_id)
        topic.name = name
        for partition in topic.partitions if self._recovering else ():
            known = self._recovering.get((topic_id, partition))
            if known is not None:
                self._recovering[topic_id, partition] = replace(known, topic=name)

    def remove(self, topic_id: TopicId) -> None:
        """Applies a RemoveTopicRecord: drops the topic and its partitions."""
        removed = self.topics.pop(topic_id, None)
        if removed is None or not self._recovering:
            return
        for partition in removed.partitions:
            self._end_recovery((topic_id, partition))

    def clear_elr(self, name: str | None) -> None:
        """Applies a ClearElrRecord: clears the ELRs of the topic with this name, or of every topic if None (KIP-966).

        For a partition with an ELR it counts as a change (TopicDelta.maybeClearElr).
        """
        for topic_id, topic in self.topics.items():
            if name is not None and topic.name != name:
                continue
            for partition, known in topic.partitions.items():
                if known.elr or known.last_known_elr:
                    epoch = raised(known.partition_epoch)
                    topic.partitions[partition] = known._replace(elr=(), last_known_elr=(), partition_epoch=epoch)
                    recovery = self._recovering.get((topic_id, partition))
                    if recovery is not None:
                        self._recovering[topic_id, partition] = replace(recovery, partition_epoch=epoch)

    def set(self, event: PartitionSet, origin: RecordPosition | SnapshotOrigin) -> None:
        """Applies a PartitionRecord: a whole partition."""
        topic = self._topic(event.topic_id)
        before = topic.partitions.get(event.partition)
        replicas = event.replicas
        topic.partitions[event.partition] = now = Assignment(
            replicas=replicas,
            isr=replicas if event.isr == replicas else event.isr,
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
        replicas, isr, elr, last_known_elr, leader, leader_epoch, partition_epoch = before or UNKNOWN
        if event.replicas is not None:
            replicas = event.replicas
        if event.isr is not None:
            isr = replicas if event.isr == replicas else event.isr
        if event.elr is not None:
            elr = event.elr
        if event.last_known_elr is not None:
            last_known_elr = event.last_known_elr
        if event.leader_set:
            leader = event.leader
            leader_epoch = raised(leader_epoch)
        topic.partitions[event.partition] = now = Assignment(
            replicas, isr, elr, last_known_elr, leader, leader_epoch, raised(partition_epoch)
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
            self._recovering[key] = continued(known, before or UNKNOWN, now, origin)
            if before is not None and passed_over(before, now):
                self.unclean.append(unclean_election(event, topic, before, now, origin))
        elif event.recovering:
            self._recovering[key] = began = recovery_began(event, topic, before, now, origin)
            if began.elected:
                self.unclean.append(unclean_election(event, topic, before, now, origin))

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
        self._recovering.pop(key, None)

    def _topic(self, topic_id: TopicId) -> Topic:
        return self.topics.setdefault(topic_id, Topic())
