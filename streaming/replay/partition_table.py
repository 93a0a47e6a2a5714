"""PartitionTable: every partition of a cluster, as rows of 32 bytes in one numpy array.

Finding, changing and adding partitions costs what is found, changed and added, not what the table holds.
"""

from collections.abc import Iterator

import numpy as np

from connectors.event_block import Numbers, Positions
from rules.model.identifiers import TopicId
from streaming.replay.assignment import Assignment
from streaming.replay.partition_row import (
    EMPTY,
    FREE_ROW,
    LARGEST_EPOCH,
    NO_TOPIC,
    ODD,
    RECOVERING,
    ROW,
    Rows,
    pack_row,
    unpack_row,
)
from streaming.replay.slot_index import NO_SLOT, SlotIndex, partition_keys
from streaming.replay.topic_numbers import TopicNumbers

_FEWEST_ROWS = 64


class PartitionTable:
    """Topics and partitions; a partition is known by its slot, the index of its row, until its topic is removed."""

    def __init__(self) -> None:
        self.topics = TopicNumbers()
        self.index = SlotIndex()
        self.rows: Rows = np.full(_FEWEST_ROWS, np.array(FREE_ROW, ROW))
        self.end = 0
        """The rows from here on were never used."""
        self.odd: dict[int, Assignment] = {}
        """By slot: the assignments that do not fit into a row."""
        self._free: list[int] = []
        self._changed: list[Numbers] = []
        self._changed_alone: set[int] = set()

    @classmethod
    def restored(cls, topics: TopicNumbers, rows: Rows, end: int, odd: dict[int, Assignment]) -> "PartitionTable":
        """Returns a stored table; takes over what it is given."""
        table = cls()
        table.topics, table.odd, table.end = topics, odd, end
        if len(rows):
            table.rows = rows
        used = table.used().astype(np.int32)
        table.index.add(partition_keys(rows["topic"][used], rows["partition"][used]), used)
        table._free = np.flatnonzero(rows["topic"][:end] == NO_TOPIC).tolist()
        return table

    def find(self, topic_id: TopicId, partition: int) -> int:
        """Returns the slot of a partition; NO_SLOT if it is unknown."""
        number = self.topics.find(topic_id)
        return NO_SLOT if number is None else self.index.find_one(number << 32 | partition)

    def key(self, slot: int) -> tuple[TopicId, int]:
        """Returns the topic and number of a partition."""
        topic_id = self.topics.ids[self.rows["topic"][slot]]
        assert topic_id is not None, "a partition's topic is known"
        return topic_id, int(self.rows["partition"][slot])

    def get(self, slot: int) -> Assignment:
        """Returns what is known about a partition."""
        held = self.odd.get(slot)
        return unpack_row(self.rows[slot].item()) if held is None else held

    def put(self, slot: int, held: Assignment) -> None:
        """Replaces what is known about a partition."""
        row = self.rows[slot]
        topic, partition, flags = int(row["topic"]), int(row["partition"]), int(row["flags"]) & RECOVERING
        packed = pack_row(topic, partition, flags, held)
        if packed is None:
            self.odd[slot] = held
            self.rows[slot] = (topic, partition, *FREE_ROW[2:7], flags | ODD, -1, -1)
        else:
            self.odd.pop(slot, None)
            self.rows[slot] = packed
        self._changed_alone.add(slot)

    def add(self, topic_id: TopicId, partition: int, held: Assignment) -> int:
        """Adds a partition that is unknown, and its topic if that is unknown; returns its slot."""
        topic = self.topics.number(topic_id)
        if self._free:
            slot = self._free.pop()
        else:
            slot = self.end
            self._reserve(slot + 1)
            self.end += 1
        row = self.rows[slot]
        row["topic"], row["partition"] = topic, partition
        self.index.add_one(topic << 32 | partition, slot)
        self.put(slot, held)
        return slot

    def allocate(self, topics: Numbers, partitions: Numbers) -> Numbers:
        """Returns slots for partitions that are unknown and differ from each other; their rows hold no assignment."""
        count = len(topics)
        split = max(len(self._free) - count, 0)
        reused, self._free = self._free[split:], self._free[:split]
        fresh = count - len(reused)
        self._reserve(self.end + fresh)
        slots = np.concatenate((np.array(reused, np.int32), np.arange(self.end, self.end + fresh, dtype=np.int32)))
        self.end += fresh
        self.rows["topic"][slots] = topics
        self.rows["partition"][slots] = partitions
        self.index.add(partition_keys(topics, partitions), slots)
        return slots

    def set_recovering(self, slot: int, *, recovering: bool) -> None:
        """Sets whether the partition's leader is recovering."""
        flags = self.rows["flags"]
        flags[slot] = (flags[slot] & ODD) | (RECOVERING if recovering else 0)
        self._changed_alone.add(slot)

    def mark_changed(self, slots: Numbers) -> None:
        """Records that rows were changed in place."""
        self._changed.append(slots)

    def take_changed(self) -> Numbers:
        """Returns the slots that changed since the last call, in ascending order."""
        alone = np.array([*self._changed_alone], np.int32)
        changed: Numbers = np.unique(np.concatenate((*self._changed, alone)))
        self._changed, self._changed_alone = [], set()
        return changed

    def remove_topic(self, topic_id: TopicId) -> None:
        """Removes a topic and its partitions; nothing happens if it is unknown."""
        number = self.topics.find(topic_id)
        if number is None:
            return
        slots = self.index.of_topic(number)
        self.index.remove_topic(number)
        self.rows[slots] = np.array(FREE_ROW, ROW)
        if self.odd:
            for slot in slots.tolist():
                self.odd.pop(slot, None)
        self._free += slots.tolist()
        self._changed.append(slots)
        self.topics.remove(topic_id)

    def clear_elr(self, name: str | None) -> list[int]:
        """Clears the ELRs of a topic, or of every topic; a partition with an ELR counts as changed (KIP-966).

        Args:
            name: the topic's name; None for every topic.

        Returns:
            The changed partitions that are recovering.
        """
        slots = self._slots(name)
        flags = self.rows["flags"][slots]
        with_elr = (self.rows["elr"][slots] != EMPTY) | (self.rows["last_known_elr"][slots] != EMPTY)
        plain = slots[with_elr & (flags & ODD == 0) & (self.rows["partition_epoch"][slots] < LARGEST_EPOCH)]
        self.rows["elr"][plain] = self.rows["last_known_elr"][plain] = EMPTY
        self.rows["partition_epoch"][plain] += 1
        self._changed.append(plain)
        alone = slots[(flags & ODD != 0) | (with_elr & ~np.isin(slots, plain))].tolist()
        changed: list[int] = plain[self.rows["flags"][plain] & RECOVERING != 0].tolist()
        for slot in alone:
            held = self.get(slot)
            if held.elr or held.last_known_elr:
                epoch = None if held.partition_epoch is None else held.partition_epoch + 1
                self.put(slot, held._replace(elr=(), last_known_elr=(), partition_epoch=epoch))
                if self.rows["flags"][slot] & RECOVERING:
                    changed.append(slot)
        return changed

    def partitions(self) -> Iterator[tuple[int, int, Assignment]]:
        """Yields topic number, partition number and assignment of every partition."""
        for slot in self.used().tolist():
            row = self.rows[slot]
            yield int(row["topic"]), int(row["partition"]), self.get(slot)

    def used(self) -> Positions:
        """Returns the slots that hold a partition."""
        return np.flatnonzero(self.rows["topic"][: self.end] != NO_TOPIC)

    def _slots(self, name: str | None) -> Numbers:
        if name is None:
            return self.used().astype(np.int32)
        topics = [self.index.of_topic(number) for number in self.topics.named(name)]
        return np.concatenate(topics) if topics else np.zeros(0, np.int32)

    def _reserve(self, count: int) -> None:
        if count > len(self.rows):
            rows = np.full(max(count, 2 * len(self.rows)), np.array(FREE_ROW, ROW))
            rows[: self.end] = self.rows[: self.end]
            self.rows = rows
