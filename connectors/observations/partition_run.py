"""PartitionRun: consecutive topic and partition records of one batch, as the values that they hold.

Nearly all records of a log are these. A run of them becomes one object, because an event for each takes several times
as long as reading it; `events` returns the same events as the decoder by schema.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from connectors.observations.log_event import PartitionChanged, PartitionSet, TopicCreated
from connectors.observations.observation import Event
from rules.model.identifiers import DirectoryId, Epoch, Millis, NodeId, Offset, TopicId
from rules.model.membership import RecordPosition


class PartitionValues(NamedTuple):
    """What a record says about a partition; None = unchanged. Equal ones are usually one object."""

    replicas: tuple[NodeId, ...] | None
    isr: tuple[NodeId, ...] | None
    elr: tuple[NodeId, ...] | None
    last_known_elr: tuple[NodeId, ...] | None
    leader: NodeId | None
    leader_set: bool
    recovering: bool | None
    adding: tuple[NodeId, ...] | None
    removing: tuple[NodeId, ...] | None


Directories: TypeAlias = tuple[DirectoryId | None, ...]
"""The log directory of each replica (KIP-858), in the order of the replicas; None for the zero UUID."""
RunRow: TypeAlias = tuple[int, TopicId, int, PartitionValues | str, int | None, int | None, Directories | None]
"""Offset minus the base offset, topic id, partition, its values, leader epoch, partition epoch, directories.

A PartitionChangeRecord has no epochs, and directories only if they change. A TopicRecord has the topic's name instead
of values.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRun:
    """Records in the order of the log, without others between them."""

    base_offset: int
    leader_epoch: int
    timestamp_ms: int
    snapshot: bool
    rows: list[RunRow] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def first_offset(self) -> Offset:
        """The offset of the first record."""
        return Offset(self.base_offset + self.rows[0][0])

    def events(self) -> Iterator[PartitionSet | PartitionChanged | TopicCreated]:
        """Yields an event for each record."""
        return map(self.event, self.rows)

    def position(self, row: RunRow) -> RecordPosition:
        """Returns the position of the record of a row."""
        return RecordPosition(
            offset=Offset(self.base_offset + row[0]),
            leader_epoch=Epoch(self.leader_epoch),
            timestamp_ms=Millis(self.timestamp_ms),
            snapshot=self.snapshot,
        )

    def event(self, row: RunRow) -> PartitionSet | PartitionChanged | TopicCreated:
        """Returns the event of one of the rows."""
        _, topic_id, partition, values, leader_epoch, partition_epoch, directories = row
        at = self.position(row)
        if isinstance(values, str):
            return TopicCreated(at=at, topic_id=topic_id, name=values)
        given = {"at": at, "topic_id": topic_id, "partition": partition, **values._asdict()}
        if leader_epoch is None:
            return PartitionChanged(**given, directories=directories)
        # A PartitionRecord gives every value.
        del given["leader_set"]
        return PartitionSet(
            **given,
            partition_leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            directories=directories or (),
        )


DecodedItem: TypeAlias = Event | PartitionRun


def each_event(items: Iterable[DecodedItem]) -> Iterator[Event]:
    """Yields every event by itself, those of runs included."""
    for item in items:
        if isinstance(item, PartitionRun):
            yield from item.events()
        else:
            yield item


class DecodedEvents(list[DecodedItem]):
    """The events of one observation, in order."""

    def events(self) -> Iterator[Event]:
        """Yields every event by itself."""
        return each_event(self)
