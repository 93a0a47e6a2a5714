"""Partition records, read by hand: they are nearly all of a busy log and of every snapshot.

What is read here must be what the reader made from the layout gives; a test holds the two equal. Only the shape
that Kafka's writers give these records is read: short lists, known tags. The rest is left to that other reader.
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
"""PartitionChangeRecord.leader where the leader is not changed; -1 is no leader."""
UNCHANGED_STATE: Final = -1
"""PartitionChangeRecord.leaderRecoveryState where it is not changed."""

Ints: TypeAlias = list[int] | None
PartitionColumns: TypeAlias = tuple[
    str, int, Ints, Ints, Ints, Ints, int | None, bool, int | None, int | None, bool | None, None
]
"""The fields of `connectors.event_columns.Row` from `topic_id` on."""
PartitionReader: TypeAlias = Callable[[bytes, int, int], PartitionColumns]
"""Of a chunk, where the body begins, and where it ends. Raises Unusual, IndexError or struct.error."""

_WHICH: Final = Struct(">i16s")
_LEADERSHIP: Final = Struct(">iii")
_INT: Final = Struct(">i")
_LISTS: Final = tuple(Struct(f">{count}i") for count in range(0x7F))
"""By the number of elements; one more would make the count a varint of two bytes."""
_TWO_EMPTY: Final = b"\1\1"
"""Nothing is being removed and nothing added: a partition that is not being reassigned."""
_UUID_SIZE: Final = 16
_RECOVERED: Final = 0
_RECOVERING: Final = 1


class UnusualShape(Exception):
    """Not the usual shape: the reader made from the layout has to look at it."""


@lru_cache(maxsize=1 << 14)
def _topic_id(raw: bytes) -> str:
    """A topic's UUID as Kafka prints it; neighbours share it, so it is kept."""
    printed = uuid_text(raw)
    if printed is None:
        raise UnusualShape
    return printed


def recovering(state: int, *, absent: int | None) -> bool | None:
    """LeaderRecoveryState (KIP-704) as a bool; None for the value that stands for unchanged.

    Raises:
        UndecodableError: the state is none that Kafka knows.
    """
    if state == absent:
        return None
    if state not in (_RECOVERED, _RECOVERING):
        raise UndecodableError(f"has the leader recovery state {state}, where 0 or 1 belongs")
    return state == _RECOVERING


def _partition(version: int) -> PartitionReader:
    """Of a PartitionRecord: directories from version 1 on, ELR (KIP-966) from 2 on."""
    directories = version >= 1
    tags = (0, 1, 2) if version >= 2 else (0,)

    def read_partition(chunk: bytes, position: int, end: int) -> PartitionColumns:
        partition, raw = _WHICH.unpack_from(chunk, position)
        replicas, position = _ints(chunk, position + _WHICH.size)
        isr, position = _ints(chunk, position)
        if chunk[position : position + 2] == _TWO_EMPTY:
            position += 2
        else:
            _, position = _ints(chunk, position)
            _, position = _ints(chunk, position)
        leader, leader_epoch, partition_epoch = _LEADERSHIP.unpack_from(chunk, position)
        position += _LEADERSHIP.size
        if directories:
            position = _past_uuids(chunk, position)
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
        shown = None if leader < 0 else leader
        topic, is_recovering = _topic_id(raw), state == _RECOVERING
        elrs = (elr, last_known_elr)
        return topic, partition, replicas, isr, *elrs, shown, True, leader_epoch, partition_epoch, is_recovering, None

    return read_partition


def _partition_change(version: int) -> PartitionReader:
    """Of a PartitionChangeRecord: everything but the partition's name is a tagged field, absent where unchanged."""
    tags = {0: (0, 1, 2, 3, 4, 5), 1: (0, 1, 2, 3, 4, 5, 8), 2: (0, 1, 2, 3, 4, 5, 6, 7, 8)}[version]

    def read_partition_change(chunk: bytes, position: int, end: int) -> PartitionColumns:
        partition, raw = _WHICH.unpack_from(chunk, position)
        position += _WHICH.size
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
                if _past_uuids(chunk, position) != position + size:
                    raise UnusualShape
            else:
                lists[tag] = _sized_ints(chunk, position, size)
            position += size
        if position != end:
            raise UnusualShape
        shown = None if leader < 0 else leader
        is_set = leader != UNCHANGED_LEADER
        replicas, isr, elr, last_known_elr = lists[2], lists[0], lists[6], lists[7]
        return _topic_id(raw), partition, replicas, isr, elr, last_known_elr, shown, is_set, None, None, state, None

    return read_partition_change


def _ints(chunk: bytes, position: int) -> tuple[list[int], int]:
    """A compact array of int32 and the position behind it."""
    count = chunk[position] - 1
    if not 0 <= count < 0x7F:
        raise UnusualShape
    return list(_LISTS[count].unpack_from(chunk, position + 1)), position + 1 + 4 * count


def _sized_ints(chunk: bytes, position: int, size: int) -> Ints:
    """A nullable compact array of int32 that must be `size` bytes long."""
    count = chunk[position]
    if size != (4 * count - 3 if count else 1) or size >= 0x80:
        raise UnusualShape
    return list(_LISTS[count - 1].unpack_from(chunk, position + 1)) if count else None


def _past_uuids(chunk: bytes, position: int) -> int:
    """The position behind a compact array of UUIDs."""
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
    **{(PARTITION, version): (PARTITION_SET, _partition(version)) for version in (0, 1, 2)},
    **{(PARTITION_CHANGE, version): (PARTITION_CHANGED, _partition_change(version)) for version in (0, 1, 2)},
}
"""By api key and version: the event's `type`, and what reads the body."""
