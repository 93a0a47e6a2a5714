"""Partitions: every partition in the log, and which of them are RECOVERING (KIP-704).

All partitions are kept, because a PartitionChangeRecord holds only the changed fields: the in-sync replicas before an
unclean election are in an earlier record.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from connectors.log_event import PartitionChanged, PartitionSet, RecordPosition
from rules.model.history import ElectedRecovered, Recovery
from rules.model.identifiers import Millis, Offset, TopicId
from streaming.replay.assignment import Assignment
from streaming.replay.recent_history import UncleanElection
from streaming.replay.recovery_change import (
    UNKNOWN,
    continued,
    passed_over,
    raised,
    recovery_began,
    unclean_election,
)
from streaming.replay.snapshot_origin import SnapshotOrigin
from streaming.replay.topic import Topic

if TYPE_CHECKING:
    from streaming.replay.page_store import PageStore
    from streaming.replay.partition_table import PartitionTable
    from streaming.replay.partition_updates import ColumnUpdates
    from streaming.replay.table_codec import StoredTable


class Partitions:
    """Every partition of a log in a table, and the partitions whose leader is recovering.

    The table is large and changes rarely: it is restored only when an event needs it, and stored again only after a
    change. `recovering` is small and is stored separately.
    """

    __slots__ = ("_packed", "_pages", "_recovering", "_sorted_recovering", "_stored", "elected_recovered", "unclean")

    def __init__(
        self, *, recovering: tuple[Recovery, ...] = (), packed: bytes | None = None, pages: "PageStore | None" = None
    ) -> None:
        """`packed` is what `pack` returned; `pages` holds its pages."""
        self._stored: StoredTable | None = None
        self._packed = packed
        self._pages = pages
        self._recovering: dict[TopicId, dict[int, Recovery]] = {}
        for one in recovering:
            self._recovering.setdefault(one.topic_id, {})[one.partition] = one
        self._sorted_recovering: tuple[Recovery, ...] | None = recovering
        self.elected_recovered: list[ElectedRecovered] = []
        """Ends of a recovery by an election since `Log.end_observation` last cleared the list."""
        self.unclean: list[UncleanElection] = []
        """Unclean elections since `Log.end_observation` last cleared the list."""

    @property
    def recovering(self) -> tuple[Recovery, ...]:
        """Partitions whose leader is recovering, ordered by topic name, topic id, partition."""
        if self._sorted_recovering is None:
            all_of_them = (one for of_topic in self._recovering.values() for one in of_topic.values())
            self._sorted_recovering = tuple(
                sorted(all_of_them, key=lambda one: (one.topic or "", one.topic_id, one.partition))
            )
        return self._sorted_recovering

    @property
    def topics(self) -> Mapping[TopicId, Topic]:
        """Every topic by its id, as objects."""
        table = self.table
        by_number = {number: (topic_id, Topic(name=name)) for number, topic_id, name in table.topics}
        for number, partition, held in table.partitions():
            by_number[number][1].partitions[partition] = held
        return dict(by_number.values())

    @property
    def table(self) -> "PartitionTable":
        """Every partition."""
        if self._stored is None:
            self._stored = self._restored()
        return self._stored.table

    def pack(self, pages: "PageStore | None" = None) -> bytes:
        """Returns the table as bytes; the original bytes if nothing changed. Its large parts are kept in `pages`."""
        if self._packed is None:
            self._packed = b"" if self._stored is None else self._stored.to_bytes(pages)
        return self._packed

    def create(self, topic_id: TopicId, name: str) -> None:
        """Applies a TopicRecord: a topic has this name."""
        topics = self._for_change().topics
        topics.set_name(topics.number(topic_id), name)
        for known in [*self._recovering.get(topic_id, {}).values()]:
            self._keep_recovery(replace(known, topic=name))

    def remove(self, topic_id: TopicId) -> None:
        """Applies a RemoveTopicRecord: drops the topic and its partitions."""
        self._for_change().remove_topic(topic_id)
        if self._recovering.pop(topic_id, None) is not None:
            self._sorted_recovering = None

    def clear_elr(self, name: str | None) -> None:
        """Applies a ClearElrRecord: clears the ELRs of the topic with this name, or of every topic if None (KIP-966).

        For a partition with an ELR it counts as a change (TopicDelta.maybeClearElr).
        """
        table = self._for_change()
        for slot in table.clear_elr(name):
            topic, partition = table.key(slot)
            known = self._recovering[topic][partition]
            self._keep_recovery(replace(known, partition_epoch=table.get(slot).partition_epoch))

    def apply_columns(self, updates: "ColumnUpdates", start: int, stop: int) -> list[int]:
        """Applies the partition events from `start` to `stop`; returns those that have to be applied one by one."""
        return updates.apply(self._for_change(), start, stop)

    def set(self, event: PartitionSet, origin: RecordPosition | SnapshotOrigin) -> None:
        """Applies a PartitionRecord: a whole partition."""
        now = Assignment(
            replicas=event.replicas,
            isr=event.isr,
            elr=event.elr,
            last_known_elr=event.last_known_elr,
            leader=event.leader,
            leader_epoch=event.partition_leader_epoch,
            partition_epoch=event.partition_epoch,
        )
        self._replace(event, self._held(event), now, origin)

    def change(self, event: PartitionChanged, origin: RecordPosition | SnapshotOrigin) -> None:
        """Applies a PartitionChangeRecord: absent fields are unchanged; epochs rise (PartitionRegistration.merge)."""
        before = self._held(event)
        replicas, isr, elr, last_known_elr, leader, leader_epoch, partition_epoch = before or UNKNOWN
        if event.replicas is not None:
            replicas = event.replicas
        if event.isr is not None:
            isr = event.isr
        if event.elr is not None:
            elr = event.elr
        if event.last_known_elr is not None:
            last_known_elr = event.last_known_elr
        if event.leader_set:
            leader = event.leader
            leader_epoch = raised(leader_epoch)
        now = Assignment(replicas, isr, elr, last_known_elr, leader, leader_epoch, raised(partition_epoch))
        self._replace(event, before, now, origin)

    def _held(self, event: PartitionSet | PartitionChanged) -> Assignment | None:
        """Returns what was known about the event's partition."""
        table = self._for_change()
        slot = table.find(event.topic_id, event.partition)
        return None if slot < 0 else table.get(slot)

    def _replace(
        self,
        event: PartitionSet | PartitionChanged,
        before: Assignment | None,
        now: Assignment,
        origin: RecordPosition | SnapshotOrigin,
    ) -> None:
        table = self.table
        if before is None:
            slot = table.add(event.topic_id, event.partition, now)
        else:
            slot = table.find(event.topic_id, event.partition)
            table.put(slot, now)
        if event.recovering or self._recovering:
            self._update_recovery(event, table.topics.name(event.topic_id), before, now, origin)
            of_topic = self._recovering.get(event.topic_id, {})
            table.set_recovering(slot, recovering=event.partition in of_topic)

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
        known = self._recovering.get(key[0], {}).get(key[1])
        if event.recovering is False:
            self._end_recovery(key)
            if known is not None and isinstance(event, PartitionChanged):
                self._record_elected_recovered(known, event, origin)
        elif known is not None:
            self._keep_recovery(continued(known, before or UNKNOWN, now, origin))
            if before is not None and passed_over(before, now):
                self.unclean.append(unclean_election(event, topic, before, now, origin))
        elif event.recovering:
            began = recovery_began(event, topic, before, now, origin)
            self._keep_recovery(began)
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

    def _keep_recovery(self, one: Recovery) -> None:
        self._recovering.setdefault(one.topic_id, {})[one.partition] = one
        self._sorted_recovering = None

    def _end_recovery(self, key: tuple[TopicId, int]) -> None:
        of_topic = self._recovering.get(key[0], {})
        if of_topic.pop(key[1], None) is not None:
            self._sorted_recovering = None
            if not of_topic:
                del self._recovering[key[0]]

    def _for_change(self) -> "PartitionTable":
        table = self.table
        self._packed = None
        return table

    def _restored(self) -> "StoredTable":
        # Imported here, because on-call commands that read no log need no numpy.
        from streaming.replay.partition_table import PartitionTable
        from streaming.replay.table_codec import StoredTable

        if not self._packed:
            return StoredTable(PartitionTable())
        return StoredTable.restored(self._packed, self._pages)
