"""EventBlock: consecutive events of which nearly all are partition events, held as numpy arrays.

The decoder makes blocks from large observations. One array for each column replaces a Python object for each value.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any, ClassVar, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rules.model.identifiers import TopicId

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
TOPIC_CREATED: Final = "topic-created"
TOPIC_BODY: Final = (
    b'{"at":{"offset":%d,"leader_epoch":%d,"timestamp_ms":%d,"snapshot":%b},"topic_id":"%b","name":"%b",'
    b'"type":"topic-created"}'
)
"""What `connectors.event.to_json` returns for a TopicCreated."""
_NO_COLUMNS: Final = (None,) * 11
"""The fields of EventRow between `snapshot` and `body`."""


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
class TopicColumns:
    """TopicCreated events; each array has one element for each event."""

    offset: Positions
    leader_epoch: Numbers
    timestamp_ms: Positions
    topic_id: Octets
    """As in PartitionColumns."""
    names: bytes
    """All names, one after the other; JSON escapes no character of them."""
    name_end: Positions
    """Where each name ends in `names`."""

    def __len__(self) -> int:
        return len(self.offset)

    @classmethod
    def none(cls) -> "TopicColumns":
        """Returns no events."""
        no_positions: Positions = np.zeros(0, np.int64)
        return cls(
            offset=no_positions,
            leader_epoch=np.zeros(0, np.int32),
            timestamp_ms=no_positions,
            topic_id=np.zeros((0, UUID_TEXT), np.uint8),
            names=b"",
            name_end=no_positions,
        )

    def ids_and_names(self, indices: range) -> Iterator[tuple[TopicId, str]]:
        """Yields id and name of each topic at these indices."""
        ids = self.topic_id[indices.start : indices.stop].tobytes().decode("ascii")
        first = int(self.name_end[indices.start - 1]) if indices.start else 0
        ends = (self.name_end[indices.start : indices.stop] - first).tolist()
        names = self.names[first : first + (ends[-1] if ends else 0)].decode("ascii")
        for at, (begin, end) in zip(range(0, len(ids), UUID_TEXT), pairwise([0, *ends]), strict=True):
            yield TopicId(ids[at : at + UUID_TEXT]), names[begin:end]

    def rows(self, indices: range, *, snapshot: bool) -> list[tuple[Any, ...]]:
        """Returns the events at these indices with the fields of EventRow."""
        part = slice(indices.start, indices.stop)
        text = b"true" if snapshot else b"false"
        positions = (self.offset[part].tolist(), self.leader_epoch[part].tolist(), self.timestamp_ms[part].tolist())
        rows: list[tuple[Any, ...]] = []
        for *at, (topic_id, name) in zip(*positions, self.ids_and_names(indices), strict=True):
            body = TOPIC_BODY % (*at, text, topic_id.encode(), name.encode())
            rows.append((TOPIC_CREATED, *at, snapshot, *_NO_COLUMNS, body))
        return rows


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
    topics: TopicColumns = field(default_factory=TopicColumns.none)
    """TopicCreated events that are not among the others."""
    topic_at: Positions = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.partition_at) + len(self.others) + len(self.topic_at)

    def rows(self, partition_set: str, partition_changed: str) -> list[tuple[Any, ...]]:
        """Returns the events in order, with the fields of EventRow and the `type` of the partition events as named."""
        rows: list[Any] = [None] * len(self)
        for at, row in zip(self.other_at.tolist(), self.others, strict=True):
            rows[at] = row
        topics = self.topics.rows(range(len(self.topics)), snapshot=self.snapshot)
        for at, row in zip(self.topic_at.tolist(), topics, strict=True):
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
