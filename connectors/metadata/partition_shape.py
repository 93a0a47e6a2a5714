"""Partition records as numpy arrays: which have the shape that Kafka writes, where their fields are, and their values.

`partition_rows` reads one such record; a record that is not of this shape, or has a value that no Kafka writes,
is left to it and to the schema's reader.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from connectors.event_block import (
    NO_LEADER,
    UNCHANGED,
    Flags,
    Numbers,
    Octets,
    Positions,
    States,
)
from connectors.metadata.byte_views import ByteViews, Cursor
from connectors.metadata.partition_rows import PARTITION, PARTITION_CHANGE, UNCHANGED_LEADER

KEY_SIZE: Final = 20
"""Bytes of partition and topic id, with which both records begin."""
TOPIC_ID_AT: Final = 4
UUID_SIZE: Final = 16
NODE_SIZE: Final = 4
_LAST_VERSION: Final = 2
REPLICAS, ISR, ELR, LAST_KNOWN_ELR, REMOVING, ADDING = range(6)
"""Indices of PartitionShape's lists."""
_LISTS: Final = 6
_TWO_BYTES: Final = 0x80
"""A varint from here on has more than one byte."""
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
_FEW_NODES: Final = 8


@dataclass(slots=True, kw_only=True)
class PartitionShape:
    """Partition records of any shape; each array has one element for each record."""

    changed: Flags
    """Whether it is a PartitionChangeRecord."""
    body: Positions
    leader: Numbers
    partition_leader_epoch: Numbers
    partition_epoch: Numbers
    state: States
    lengths: list[Numbers]
    """Of each list of nodes; UNCHANGED if it is absent or null."""
    firsts: list[Positions]
    """Where the nodes of each list begin."""
    directories: Numbers
    """The number of directories; UNCHANGED if they are absent."""
    directories_first: Positions
    """Where the directory ids begin."""
    usual: Flags
    """Whether the record has the usual shape, so that every field is where these arrays say."""


def is_partition_record(type_: Octets, version: Octets) -> Flags:
    """Returns which types and versions `partition_shape` reads."""
    found: Flags = ((type_ == PARTITION) | (type_ == PARTITION_CHANGE)) & (version <= _LAST_VERSION)
    return found


def partition_shape(
    views: ByteViews, type_: Octets, version: Octets, body: Positions, end: Positions
) -> PartitionShape:
    """Finds the fields of partition records."""
    count = len(body)
    shape = PartitionShape(
        changed=type_ == PARTITION_CHANGE,
        body=body,
        leader=np.full(count, UNCHANGED_LEADER, np.int32),
        partition_leader_epoch=np.full(count, NO_LEADER, np.int32),
        partition_epoch=np.full(count, NO_LEADER, np.int32),
        state=np.full(count, UNCHANGED, np.int8),
        lengths=[np.full(count, UNCHANGED, np.int32) for _ in range(_LISTS)],
        firsts=[np.zeros(count, np.int64) for _ in range(_LISTS)],
        directories=np.full(count, UNCHANGED, np.int32),
        directories_first=np.zeros(count, np.int64),
        usual=np.zeros(count, np.bool_),
    )
    for changed, known_version in TAGS:
        rows = np.flatnonzero((shape.changed == changed) & (version == known_version))
        if rows.size:
            cursor = Cursor(views, body[rows], end[rows])
            cursor.at = cursor.at + KEY_SIZE
            if not changed:
                _read_fixed_fields(shape, cursor, rows, directories=known_version >= 1)
            _read_tags(shape, cursor, rows, changed=changed, tags=TAGS[changed, known_version])
            shape.usual[rows] = cursor.finished()
    return shape


def _read_fixed_fields(shape: PartitionShape, cursor: Cursor, rows: Positions, *, directories: bool) -> None:
    """Reads the fields of PartitionRecord that are not tagged."""
    for which in (REPLICAS, ISR, REMOVING, ADDING):
        lengths, shape.firsts[which][rows] = cursor.counted(NODE_SIZE)
        shape.lengths[which][rows] = lengths
    int32 = cursor.views.int32
    shape.leader[rows] = int32[cursor.at]
    shape.partition_leader_epoch[rows] = int32[cursor.at + 4]
    shape.partition_epoch[rows] = int32[cursor.at + 8]
    cursor.at = cursor.at + 12
    if directories:
        shape.directories[rows], shape.directories_first[rows] = cursor.counted(UUID_SIZE)
    shape.state[rows] = 0
    shape.lengths[ELR][rows] = 0
    shape.lengths[LAST_KNOWN_ELR][rows] = 0


def _read_tags(
    shape: PartitionShape, cursor: Cursor, rows: Positions, *, changed: bool, tags: Mapping[int, int | str]
) -> None:
    """Reads the tagged fields, one of each record at a time."""
    left = cursor.byte()
    cursor.require(left <= len(tags))
    last = np.full(len(rows), -1, np.int64)
    live = np.flatnonzero(cursor.usual & (left > 0))
    octets = cursor.views.bytes
    while live.size:
        at = cursor.at[live]
        tag, size = octets[at].astype(np.int64), octets[at + 1].astype(np.int64)
        good = (tag > last[live]) & (size < _TWO_BYTES)
        for each in np.flatnonzero(np.bincount(tag)).tolist():
            mine = slice(None) if each == tag.min() == tag.max() else np.flatnonzero(tag == each)
            meaning = tags.get(each)
            good[mine] &= meaning is not None and _read_tag(
                shape, cursor.views, rows[live[mine]], at[mine] + 2, size[mine], meaning, nullable=changed
            )
        cursor.at[live] = at + 2 + size
        last[live] = tag
        left[live] -= 1
        every = np.ones(len(rows), np.bool_)
        every[live] = good
        cursor.require(every)
        live = live[cursor.usual[live] & (left[live] > 0)]


def _read_tag(
    shape: PartitionShape,
    views: ByteViews,
    rows: Positions,
    at: Positions,
    size: Positions,
    meaning: int | str,
    *,
    nullable: bool,
) -> Flags:
    """Reads one tagged field of some records; returns for which it has the size of its content."""
    if meaning == STATE:
        shape.state[rows] = views.bytes[at].view(np.int8)
        return np.asarray(size == 1)
    if meaning == LEADER:
        shape.leader[rows] = views.int32[at]
        return np.asarray(size == NODE_SIZE)
    count = views.bytes[at].astype(np.int64) - 1
    if meaning == DIRECTORIES:
        shape.directories[rows], shape.directories_first[rows] = count, at + 1
        return np.asarray((count >= 0) & (size == 1 + UUID_SIZE * count))
    assert isinstance(meaning, int)
    # In a PartitionRecord, a null ELR is an empty one.
    shape.lengths[meaning][rows] = count if nullable else np.maximum(count, 0)
    shape.firsts[meaning][rows] = at + 1
    good: Flags = size == 1 + NODE_SIZE * np.maximum(count, 0)
    return good


def valid_partitions(shape: PartitionShape, views: ByteViews) -> Flags:
    """Returns which records of the usual shape hold only values that Kafka writes (see `value_limits`)."""
    valid = shape.usual & (views.int32[shape.body] >= 0) & (shape.state <= 1) & (shape.state >= UNCHANGED)
    valid &= shape.leader >= np.where(shape.changed, UNCHANGED_LEADER, NO_LEADER)
    valid &= (shape.partition_leader_epoch >= NO_LEADER) & (shape.partition_epoch >= NO_LEADER)
    valid &= (shape.state >= 0) | (shape.changed & (shape.state == UNCHANGED))
    valid &= shape.lengths[REPLICAS] != 0
    valid &= views.uuids(shape.body + TOPIC_ID_AT).view(np.int64).any(axis=1)
    for lengths, firsts in zip(shape.lengths, shape.firsts, strict=True):
        for length in distinct_lengths(lengths):
            rows = np.flatnonzero((lengths == length) & valid)
            nodes = views.nodes(firsts[rows], length)
            valid[rows] = are_nodes(nodes)
    return valid


def distinct_lengths(lengths: Numbers) -> list[int]:
    """Returns the different lengths above 0."""
    return [length - 1 for length in np.flatnonzero(np.bincount(lengths + 1)).tolist() if length > 1]


def are_nodes(nodes: Numbers) -> Flags:
    """Returns which rows hold no negative id and none twice."""
    good: Flags = np.ones(len(nodes), np.bool_)
    count = nodes.shape[1]
    if count > _FEW_NODES:
        ordered = np.sort(nodes, axis=1)
        good &= (ordered[:, 0] >= 0) & (ordered[:, 1:] != ordered[:, :-1]).all(axis=1)
        return good
    for one in range(count):
        good &= nodes[:, one] >= 0
        for other in range(one):
            good &= nodes[:, one] != nodes[:, other]
    return good
