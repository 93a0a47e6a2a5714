"""EventBlock: consecutive events of which nearly all are partition events, held as numpy arrays.

The decoder makes blocks from large observations. One array for each column replaces a Python object for each value.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Positions: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = npt.NDArray[np.int32]
States: TypeAlias = npt.NDArray[np.int8]
Flags: TypeAlias = npt.NDArray[np.bool_]
Octets: TypeAlias = npt.NDArray[np.uint8]

UNCHANGED = -1
"""The length of a list that is None, and the recovery state that is None."""
NO_LEADER = -1
"""A leader that is None."""
UUID_TEXT = 22
"""Characters of a UUID as Kafka prints it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLists:
    """One list of node ids for each partition event."""

    lengths: Numbers
    """UNCHANGED for None."""
    nodes: Numbers
    """The nodes of all lists, one list after the other."""

    def lists(self) -> Iterator[list[int] | None]:
        """Yields each list, or None."""
        nodes = self.nodes.tolist()
        end = 0
        for length in self.lengths.tolist():
            if length < 0:
                yield None
            else:
                start, end = end, end + length
                yield nodes[start:end]

    def take(self, at: Positions) -> "NodeLists":
        """Returns the lists at these indices."""
        present = np.maximum(self.lengths, 0).astype(np.int64)
        lengths = present[at]
        ends = np.cumsum(lengths)
        firsts = (np.cumsum(present) - present)[at]
        total = int(ends[-1]) if len(ends) else 0
        nodes = self.nodes[np.arange(total) + np.repeat(firsts - ends + lengths, lengths)]
        return NodeLists(lengths=self.lengths[at], nodes=nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionColumns:
    """PartitionSet and PartitionChanged events; each array has one element for each event."""

    changed: Flags
    """Whether the event is a PartitionChanged."""
    offset: Positions
    leader_epoch: Numbers
    timestamp_ms: Positions
    topic_id: Octets
    """The text in ASCII: UUID_TEXT bytes for each event, in two dimensions."""
    partition: Numbers
    replicas: NodeLists
    isr: NodeLists
    elr: NodeLists
    last_known_elr: NodeLists
    leader: Numbers
    """NO_LEADER, or anything below, for None."""
    leader_set: Flags
    partition_leader_epoch: Numbers
    """Of a PartitionSet, as `partition_epoch`; a PartitionChanged has none."""
    partition_epoch: Numbers
    recovering: States
    """0, 1, or UNCHANGED for None."""

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, at: Positions) -> "PartitionColumns":
        """Returns the events at these indices."""
        columns = ((each.name, getattr(self, each.name)) for each in fields(self))
        taken: dict[str, Any] = {
            name: column.take(at) if isinstance(column, NodeLists) else column[at] for name, column in columns
        }
        return PartitionColumns(**taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBlock:
    """Consecutive events of one observation."""

    type: ClassVar[Literal["event-block"]] = "event-block"

    snapshot: bool
    """Whether the partition events are of a `.checkpoint`."""
    partitions: PartitionColumns
    partition_at: Positions
    """The index of each partition event among the block's events, ascending."""
    others: list[tuple[Any, ...]]
    """All other events, in order, with the fields of EventRow."""
    other_at: Positions

    def __len__(self) -> int:
        return len(self.partition_at) + len(self.others)

    def rows(self, partition_set: str, partition_changed: str) -> list[tuple[Any, ...]]:
        """Returns the events in order, with the fields of EventRow and the `type` of the partition events as named."""
        rows: list[Any] = [None] * len(self)
        for at, row in zip(self.other_at.tolist(), self.others, strict=True):
            rows[at] = row
        of = self.partitions
        count = len(of)
        changed = of.changed.tolist()
        text = of.topic_id.tobytes().decode("ascii")
        epochs = zip(changed, of.partition_leader_epoch.tolist(), of.partition_epoch.tolist(), strict=True)
        columns = (
            [partition_changed if is_changed else partition_set for is_changed in changed],
            of.offset.tolist(),
            of.leader_epoch.tolist(),
            of.timestamp_ms.tolist(),
            [self.snapshot] * count,
            [text[at : at + UUID_TEXT] for at in range(0, UUID_TEXT * count, UUID_TEXT)],
            of.partition.tolist(),
            *(each.lists() for each in (of.replicas, of.isr, of.elr, of.last_known_elr)),
            [None if leader < 0 else leader for leader in of.leader.tolist()],
            of.leader_set.tolist(),
            *zip(
                *((None, None) if is_changed else (first, second) for is_changed, first, second in epochs), strict=True
            ),
            [None if state < 0 else state == 1 for state in of.recovering.tolist()],
            [None] * count,
        )
        for at, row in zip(self.partition_at.tolist(), zip(*columns, strict=True), strict=True):
            rows[at] = row
        return rows
