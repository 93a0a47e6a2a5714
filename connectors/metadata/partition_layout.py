"""Partition records of the same layout: each field is at the same place in each, so they are the rows of a matrix.

Nearly all partition records of a snapshot, and most of a log, have one of few layouts. All others are read one by one.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from connectors.event_block import Flags, Octets, Positions
from connectors.metadata.byte_views import ByteViews
from connectors.metadata.partition_rows import PARTITION, PARTITION_CHANGE

KEY_SIZE: Final = 20
"""Bytes of partition and topic id, with which both records begin."""
TOPIC_ID_AT: Final = 4
UUID_SIZE: Final = 16
NODE_SIZE: Final = 4
_LAST_VERSION: Final = 2
REPLICAS, ISR, ELR, LAST_KNOWN_ELR, REMOVING, ADDING = range(6)
"""Indices of the lists of nodes."""
STATE, LEADER, DIRECTORIES = "state", "leader", "directories"
_SET_TAGS: Final[dict[int, int | str]] = {0: STATE}
_CHANGE_TAGS: Final[dict[int, int | str]] = {0: ISR, 1: LEADER, 2: REPLICAS, 3: REMOVING, 4: ADDING, 5: STATE}
TAGS: Final[dict[tuple[bool, int], dict[int, int | str]]] = {
    (False, 0): _SET_TAGS,
    (False, 1): _SET_TAGS,
    (False, 2): _SET_TAGS | {1: ELR, 2: LAST_KNOWN_ELR},
    (True, 0): _CHANGE_TAGS,
    (True, 1): _CHANGE_TAGS | {8: DIRECTORIES},
    (True, 2): _CHANGE_TAGS | {6: ELR, 7: LAST_KNOWN_ELR, 8: DIRECTORIES},
}
"""What each tag holds, by whether the record is a PartitionChangeRecord, and by its version."""
FEWEST_ROWS: Final = 64
"""Fewer records of one length are read one by one: numpy's fixed cost is higher."""
_MOST_LENGTHS: Final = 16
"""Lengths of records that are looked at, the most frequent first."""
_MOST_LAYOUTS: Final = 4
"""Layouts of one length that are looked for."""
_LONGEST_BODY: Final = 512
_MOST_ELEMENTS: Final = 0x7F
_TWO_BYTES: Final = 0x80


@dataclass(slots=True, kw_only=True)
class PartitionLayout:
    """Where the fields of a partition record are, in bytes from the beginning of its body."""

    decisive: list[int] = field(default_factory=list)
    """The bytes that make the layout: numbers of elements, tags and sizes."""
    lists: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By index, for the lists that are present: where the first node is, and their number."""
    leader: int | None = None
    """Where the leader is; the leader's epoch and the partition epoch follow it in a PartitionRecord."""
    state: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformPartitions:
    """Records of one layout."""

    changed: bool
    """Whether they are PartitionChangeRecords."""
    layout: PartitionLayout
    rows: Positions
    """Their indices among all partition records, ascending."""
    bodies: Octets
    """One row for each."""


def is_partition_record(type_: Octets, version: Octets) -> Flags:
    """Returns which types and versions have layouts here."""
    found: Flags = ((type_ == PARTITION) | (type_ == PARTITION_CHANGE)) & (version <= _LAST_VERSION)
    return found


def partition_layout(body: bytes, *, changed: bool, version: int) -> PartitionLayout | None:
    """Returns the layout of a record; None if it does not have the shape that Kafka writes."""
    layout = PartitionLayout()
    try:
        position = KEY_SIZE if changed else _fixed_fields(layout, body, directories=version >= 1)
        position = _tagged_fields(layout, body, position, TAGS[changed, version], nullable=changed)
    except (IndexError, _UnusualLayout):
        return None
    return layout if position == len(body) else None


class _UnusualLayout(Exception):
    """The record does not have the usual shape."""


def _fixed_fields(layout: PartitionLayout, body: bytes, *, directories: bool) -> int:
    """Reads the fields of PartitionRecord that are not tagged; returns where they end."""
    position = KEY_SIZE
    for which in (REPLICAS, ISR, REMOVING, ADDING):
        count = _count(layout, body, position)
        layout.lists[which] = position + 1, count
        position += 1 + NODE_SIZE * count
    layout.leader = position
    position += 3 * NODE_SIZE
    if directories:
        position += 1 + UUID_SIZE * _count(layout, body, position)
    layout.lists[ELR] = layout.lists[LAST_KNOWN_ELR] = 0, 0
    return position


def _count(layout: PartitionLayout, body: bytes, position: int) -> int:
    layout.decisive.append(position)
    count = body[position] - 1
    if not 0 <= count < _MOST_ELEMENTS:
        raise _UnusualLayout
    return count


def _tagged_fields(
    layout: PartitionLayout, body: bytes, position: int, tags: dict[int, int | str], *, nullable: bool
) -> int:
    """Reads the tagged fields; returns where they end."""
    layout.decisive.append(position)
    left, last = body[position], -1
    position += 1
    for _ in range(left):
        tag, size = body[position], body[position + 1]
        layout.decisive += (position, position + 1)
        position += 2
        if tag <= last or tag not in tags or size >= _TWO_BYTES:
            raise _UnusualLayout
        _tagged_field(layout, body, position, size, tags[tag], nullable=nullable)
        last, position = tag, position + size
    return position


def _tagged_field(
    layout: PartitionLayout, body: bytes, position: int, size: int, meaning: int | str, *, nullable: bool
) -> None:
    if meaning == STATE:
        layout.state, expected = position, 1
    elif meaning == LEADER:
        layout.leader, expected = position, NODE_SIZE
    else:
        layout.decisive.append(position)
        count = body[position] - 1
        if meaning == DIRECTORIES:
            expected = 1 + UUID_SIZE * count if count >= 0 else 0
        else:
            assert isinstance(meaning, int)
            expected = 1 + NODE_SIZE * max(count, 0)
            if count >= 0 or not nullable:
                layout.lists[meaning] = position + 1, max(count, 0)
    if size != expected:
        raise _UnusualLayout


def uniform_partitions(
    views: ByteViews, type_: Octets, version: Octets, body: Positions, end: Positions
) -> list[UniformPartitions]:
    """Returns the records of each layout that many of these partition records have."""
    size = end - body
    kind = np.minimum(size, _LONGEST_BODY) << 3 | version.astype(np.int64) << 1 | (type_ == PARTITION_CHANGE)
    counts = np.bincount(kind)
    counts[_LONGEST_BODY << 3 :] = 0
    counts[: (KEY_SIZE + 1) << 3] = 0
    found: list[UniformPartitions] = []
    for each in np.argsort(-counts, kind="stable")[:_MOST_LENGTHS].tolist():
        if counts[each] < FEWEST_ROWS:
            break
        rows = np.flatnonzero(kind == each)
        bodies = views.rows(body[rows], each >> 3)
        for _ in range(_MOST_LAYOUTS):
            if len(rows) < FEWEST_ROWS:
                break
            changed = bool(each & 1)
            layout = partition_layout(bodies[0].tobytes(), changed=changed, version=each >> 1 & 3)
            if layout is None:
                break
            same = _same_layout(layout, bodies)
            alike = same.all()
            chosen = rows if alike else rows[same]
            of_layout = bodies if alike else bodies[same]
            found.append(UniformPartitions(changed=changed, layout=layout, rows=chosen, bodies=of_layout))
            if alike:
                break
            rows, bodies = rows[~same], bodies[~same]
    return found


def _same_layout(layout: PartitionLayout, bodies: Octets) -> Flags:
    """Returns which records have the layout of the first."""
    same: Flags = np.ones(len(bodies), np.bool_)
    for at in layout.decisive:
        same &= bodies[:, at] == bodies[0, at]
    return same
