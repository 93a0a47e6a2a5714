"""Partition records, read by hand: they are nearly all of a busy log and of every snapshot.

What is read here must be what the reader compiled from the layout gives; a test holds the two equal. Versions
that are not listed here are left to that reader.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from struct import Struct
from typing import Final, TypeAlias

from connectors.columns import PARTITION_CHANGED, PARTITION_SET
from connectors.errors import UndecodableError
from connectors.metadata.fields import Span, uuid, uvarint

PARTITION: Final = 3
PARTITION_CHANGE: Final = 5
UNCHANGED_LEADER: Final = -2
"""PartitionChangeRecord.leader where the leader is not changed; -1 is no leader."""
UNCHANGED_STATE: Final = -1
"""PartitionChangeRecord.leaderRecoveryState where it is not changed."""

Ints: TypeAlias = list[int] | None
Tail: TypeAlias = tuple[str, int, Ints, Ints, Ints, int | None, bool, int | None, bool | None, None]
"""The fields of `connectors.columns.Row` from `topic_id` on."""
PartitionReader: TypeAlias = Callable[[bytes, int, int], Tail]
"""Of a chunk, where the body begins, and where it ends."""

_WHICH: Final = Struct(">i16s")
_LEADERSHIP: Final = Struct(">iii")
_INT: Final = Struct(">i")
_SHORT_LISTS: Final = tuple(Struct(f">{count}i") for count in range(64))
_UUID_SIZE: Final = 16
_ELR_SINCE: Final = 2
"""The version from which both records know eligible leader replicas."""
_NOT_ITS_SIZE: Final = "is not as long as its fields"
_TAG_NOT_ITS_SIZE: Final = "has a tagged field that is not as long as its value"
_RECOVERED: Final = 0
_RECOVERING: Final = 1


@lru_cache(maxsize=1 << 14)
def topic_id(raw: bytes) -> str:
    """A topic's UUID as Kafka prints it; neighbours share it, so it is kept."""
    printed = uuid(raw)
    if printed is None:
        raise UndecodableError("has the zero UUID for a topic id")
    return printed


def recovering(state: int, *, absent: int | None) -> bool | None:
    """LeaderRecoveryState (KIP-704) as a bool; None for the value that stands for unchanged."""
    if state == absent:
        return None
    if state not in (_RECOVERED, _RECOVERING):
        raise UndecodableError(f"has the leader recovery state {state}, where 0 or 1 belongs")
    return state == _RECOVERING


def _partition(chunk: bytes, position: int, end: int, *, version: int) -> Tail:
    """A PartitionRecord: directories from version 1 on, ELR (KIP-966) from 2 on."""
    partition, raw = _WHICH.unpack_from(chunk, position)
    replicas, position = _ints(chunk, position + _WHICH.size)
    isr, position = _ints(chunk, position)
    removing, position = _ints(chunk, position)
    adding, position = _ints(chunk, position)
    leader, leader_epoch, _ = _LEADERSHIP.unpack_from(chunk, position)
    position += _LEADERSHIP.size
    directories = 1
    if version >= 1:
        directories, position = uvarint(chunk, position)
        position += (directories - 1) * _UUID_SIZE
    if replicas is None or isr is None or removing is None or adding is None or directories == 0:
        raise UndecodableError("has null where a value belongs")
    state = _RECOVERED
    elr: Ints = None
    if chunk[position] == 0:
        position += 1
    else:
        tags, position = _tags(chunk, position, end)
        state = _int8(chunk, tags.pop(0)) if 0 in tags else state
        if version >= _ELR_SINCE:
            elr = _tagged_ints(chunk, tags.pop(1)) if 1 in tags else None
            _tagged_ints(chunk, tags.pop(2)) if 2 in tags else None
    if position != end:
        raise UndecodableError(_NOT_ITS_SIZE)
    return (
        topic_id(raw),
        partition,
        replicas,
        isr,
        elr or [],
        None if leader < 0 else leader,
        True,
        leader_epoch,
        recovering(state, absent=None),
        None,
    )


def _partition_change(chunk: bytes, position: int, end: int, *, version: int) -> Tail:
    """A PartitionChangeRecord: everything but the partition's name is a tagged field, absent where unchanged."""
    partition, raw = _WHICH.unpack_from(chunk, position)
    tags, position = _tags(chunk, position + _WHICH.size, end)
    if position != end:
        raise UndecodableError(_NOT_ITS_SIZE)
    leader = UNCHANGED_LEADER
    isr = replicas = elr = state = None
    for tag, where in tags.items():
        if tag == 0:
            isr = _tagged_ints(chunk, where)
        elif tag == 1:
            leader = _int32(chunk, where)
        elif tag == 2:
            replicas = _tagged_ints(chunk, where)
        elif tag == 5:
            state = recovering(_int8(chunk, where), absent=UNCHANGED_STATE)
        elif tag == 6 and version >= _ELR_SINCE:
            elr = _tagged_ints(chunk, where)
        else:
            _passed_over(chunk, where, tag, version)
    return (
        topic_id(raw),
        partition,
        replicas,
        isr,
        elr,
        None if leader < 0 else leader,
        leader != UNCHANGED_LEADER,
        None,
        state,
        None,
    )


def _passed_over(chunk: bytes, where: Span, tag: int, version: int) -> None:
    """Removing and adding replicas, last known ELR, directories: not kept, but they must be what they should be."""
    if tag in (3, 4) or (tag == 7 and version >= _ELR_SINCE):
        _tagged_ints(chunk, where)
    elif tag == 8 and version >= 1:
        count, position = uvarint(chunk, where[0])
        if position + max(count - 1, 0) * _UUID_SIZE != where[1]:
            raise UndecodableError(_TAG_NOT_ITS_SIZE)


def _ints(chunk: bytes, position: int) -> tuple[Ints, int]:
    """A compact array of int32, null allowed, and the position behind it."""
    count = chunk[position] - 1
    position += 1
    if count >= 0x7F:
        count, position = uvarint(chunk, position - 1)
        count -= 1
    if count < 0:
        return None, position
    struct = _SHORT_LISTS[count] if count < len(_SHORT_LISTS) else Struct(f">{count}i")
    return list(struct.unpack_from(chunk, position)), position + struct.size


def _tags(chunk: bytes, position: int, end: int) -> tuple[dict[int, Span], int]:
    """Where each tagged field begins and ends, and the position behind them all."""
    count, position = uvarint(chunk, position)
    tags: dict[int, Span] = {}
    last = -1
    for _ in range(count):
        tag, position = uvarint(chunk, position)
        size, position = uvarint(chunk, position)
        if tag <= last:
            raise UndecodableError("has tagged fields out of order")
        last = tag
        tags[tag] = (position, position + size)
        position += size
        if position > end:
            raise UndecodableError("ends in the middle of a tagged field")
    return tags, position


def _tagged_ints(chunk: bytes, where: Span) -> Ints:
    values, position = _ints(chunk, where[0])
    if position != where[1]:
        raise UndecodableError(_TAG_NOT_ITS_SIZE)
    return values


def _int8(chunk: bytes, where: Span) -> int:
    if where[1] - where[0] != 1:
        raise UndecodableError(_TAG_NOT_ITS_SIZE)
    value = chunk[where[0]]
    return value - 0x100 if value >= 0x80 else value


def _int32(chunk: bytes, where: Span) -> int:
    if where[1] - where[0] != _INT.size:
        raise UndecodableError(_TAG_NOT_ITS_SIZE)
    value: int = _INT.unpack_from(chunk, where[0])[0]
    return value


READERS: Final[dict[tuple[int, int], tuple[str, PartitionReader]]] = {
    **{(PARTITION, version): (PARTITION_SET, partial(_partition, version=version)) for version in (0, 1, 2)},
    **{
        (PARTITION_CHANGE, version): (PARTITION_CHANGED, partial(_partition_change, version=version))
        for version in (0, 1, 2)
    },
}
"""By api key and version: the event's `type`, and what reads the body."""
