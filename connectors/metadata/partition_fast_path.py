"""Fast readers for partition records, which are nearly all records of a busy log and of every snapshot.

A fast reader must return the same as the reader built from the schema; a test compares the two. It reads only the
shape in which Kafka writes these records: short lists, known tags. The schema's reader reads all others.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Final, TypeAlias

from connectors.errors import UndecodableError
from connectors.event_columns import PARTITION_CHANGED, PARTITION_SET
from connectors.metadata.field_readers import uuid_text

PARTITION: Final = 3
PARTITION_CHANGE: Final = 5
UNCHANGED_LEADER: Final = -2
"""PartitionChangeRecord.leader if the leader is unchanged; -1 is no leader."""
UNCHANGED_STATE: Final = -1
"""PartitionChangeRecord.leaderRecoveryState if it is unchanged."""

Ints: TypeAlias = list[int] | None
PartitionColumns: TypeAlias = tuple[
    str, int, Ints, Ints, Ints, Ints, int | None, bool, int | None, int | None, bool | None, None
]
"""The fields of `connectors.event_columns.EventRow` from `topic_id` on."""
PartitionReader: TypeAlias = Callable[[bytes, int, int], PartitionColumns]
"""Takes a chunk, the start of the body and its end. Raises UnusualShape, IndexError or struct.error."""

_PARTITION_AND_TOPIC: Final = Struct(">i16s")
_LEADERSHIP: Final = Struct(">iii")
_INT: Final = Struct(">i")
_LISTS: Final = tuple(Struct(f">{count}i") for count in range(0x7F))
"""By the number of elements: up to 126, so that the count is a varint of one byte."""
_TWO_EMPTY: Final = b"\1\1"
"""No removing and no adding replicas: the partition is not being reassigned."""
_UUID_SIZE: Final = 16
_RECOVERED: Final = 0
_RECOVERING: Final = 1


class UnusualShape(Exception):
    """The record does not have the usual shape: the schema's reader must read it."""


@lru_cache(maxsize=1 << 14)
def _topic_id(raw: bytes) -> str:
    """Returns a topic's UUID as Kafka prints it. Cached, because adjacent records share it."""
    printed = uuid_text(raw)
    if printed is None:
        raise UnusualShape
    return printed


def recovering(state: int, *, absent: int | None) -> bool | None:
    """Returns LeaderRecoveryState (KIP-704) as a bool; None if it equals `absent`, the value for unchanged.

    Raises:
        UndecodableError: Kafka does not know the state.
    """
    if state == absent:
        return None
    if state not in (_RECOVERED, _RECOVERING):
        raise UndecodableError(f"has leader recovery state {state}, expected 0 or 1")
    return state == _RECOVERING


def _partition_reader(version: int) -> PartitionReader:
    """Returns the reader of a PartitionRecord: directories from version 1 on, ELR (KIP-966) from version 2 on."""
    directories = version >= 1
    tags = (0, 1, 2) if version >= 2 else (0,)

    def read_partition(chunk: bytes, position: int, end: int) -> PartitionColumns:
        partition, raw = _PARTITION_AND_TOPIC.unpack_from(chunk, position)
        replicas, position = _ints(chunk, position + _PARTITION_AND_TOPIC.size)
        isr, position = _ints(chunk, position)
        if chunk[position : position + 2] == _TWO_EMPTY:
            position += 2
        else:
            _, position = _ints(chunk, position)
            _, position = _ints(chunk, position)
        leader, leader_epoch, partition_epoch = _LEADERSHIP.unpack_from(chunk, position)
        if partition < 0 or leader < -1 or leader_epoch < -1 or partition_epoch < -1 or not replicas:
            raise UnusualShape
        position += _LEADERSHIP.size
        if directories:
            position = _skip_uuids(chunk, position)
        state = _RECOVERED
        elr: list[int] = []
        last_known_elr: list[int] = []
        count = chunk[position]
        position += 1
        last = -1
        for _ in range(count):
            tag = chunk[position]
            size = chunk[position + 1]
            position += 2
            if tag <= last or tag not in tags:
                raise UnusualShape
            last = tag
            if tag == 0:
                state = _state(chunk, position, size)
            elif tag == 1:
                elr = _sized_ints(chunk, position, size) or []
            else:
                last_known_elr = _sized_ints(chunk, position, size) or []
            position += size
        if position != end:
            raise UnusualShape
        leader_or_none = None if leader < 0 else leader
        topic, is_recovering = _topic_id(raw), state == _RECOVERING
        elrs = (elr, last_known_elr)
        return (
            topic,
            partition,
            replicas,
            isr,
            *elrs,
            leader_or_none,
            True,
            leader_epoch,
            partition_epoch,
            is_recovering,
            None,
        )

    return read_partition


def _partition_change_reader(version: int) -> PartitionReader:
    """Returns the reader of a PartitionChangeRecord: all fields but its key are tagged, and absent means unchanged."""
    tags = {0: (0, 1, 2, 3, 4, 5), 1: (0, 1, 2, 3, 4, 5, 8), 2: (0, 1, 2, 3, 4, 5, 6, 7, 8)}[version]

    def read_partition_change(chunk: bytes, position: int, end: int) -> PartitionColumns:
        partition, raw = _PARTITION_AND_TOPIC.unpack_from(chunk, position)
        position += _PARTITION_AND_TOPIC.size
        leader = UNCHANGED_LEADER
        state: bool | None = None
        lists: list[Ints] = [None] * 9
        count = chunk[position]
        position += 1
        last = -1
        for _ in range(count):
            tag = chunk[position]
            size = chunk[position + 1]
            position += 2
            if tag <= last or tag not in tags:
                raise UnusualShape
            last = tag
            if tag == 1:
                leader = _leader(chunk, position, size)
            elif tag == 5:
                state = _state(chunk, position, size) == _RECOVERING
            elif tag == 8:
                if size >= 0x80 or _skip_uuids(chunk, position) != position + size:
                    raise UnusualShape
            else:
                lists[tag] = _sized_ints(chunk, position, size)
            position += size
        if position != end:
            raise UnusualShape
        if partition < 0 or leader < UNCHANGED_LEADER or lists[2] == []:
            raise UnusualShape
        leader_or_none = None if leader < 0 else leader
        is_set = leader != UNCHANGED_LEADER
        replicas, isr, elr, last_known_elr = lists[2], lists[0], lists[6], lists[7]
        return (
            _topic_id(raw),
            partition,
            replicas,
            isr,
            elr,
            last_known_elr,
            leader_or_none,
            is_set,
            None,
            None,
            state,
            None,
        )

    return read_partition_change


@lru_cache(maxsize=1 << 15)
def _nodes(packed: bytes) -> list[int]:
    """Returns node ids, which must be valid and differ from each other.

    Cached, because many partitions have the same replicas, and nearly all of them the same replicas in sync.
    """
    nodes = list(_LISTS[len(packed) // 4].unpack(packed))
    if nodes and (min(nodes) < 0 or len({*nodes}) < len(nodes)):
        raise UnusualShape
    return nodes


def _ints(chunk: bytes, position: int) -> tuple[list[int], int]:
    """Returns a compact array of node ids and the position after it."""
    count = chunk[position] - 1
    if not 0 <= count < 0x7F:
        raise UnusualShape
    end = position + 1 + 4 * count
    return _nodes(chunk[position + 1 : end]), end


def _sized_ints(chunk: bytes, position: int, size: int) -> Ints:
    """Returns a nullable compact array of node ids that must be `size` bytes long."""
    count = chunk[position]
    if size != (4 * count - 3 if count else 1) or size >= 0x80:
        raise UnusualShape
    return _nodes(chunk[position + 1 : position + size]) if count else None


def _skip_uuids(chunk: bytes, position: int) -> int:
    """Returns the position after a compact array of UUIDs."""
    count = chunk[position]
    if not 1 <= count < 0x80:
        raise UnusualShape
    return position + 1 + (count - 1) * _UUID_SIZE


def _leader(chunk: bytes, position: int, size: int) -> int:
    if size != _INT.size:
        raise UnusualShape
    leader: int = _INT.unpack_from(chunk, position)[0]
    return leader


def _state(chunk: bytes, position: int, size: int) -> int:
    state = chunk[position]
    if size != 1 or state > _RECOVERING:
        raise UnusualShape
    return state


PARTITION_READERS: Final[dict[tuple[int, int], tuple[str, PartitionReader]]] = {
    **{(PARTITION, version): (PARTITION_SET, _partition_reader(version)) for version in (0, 1, 2)},
    **{(PARTITION_CHANGE, version): (PARTITION_CHANGED, _partition_change_reader(version)) for version in (0, 1, 2)},
}
"""By api key and version: the event's `type`, and the reader of the body."""
