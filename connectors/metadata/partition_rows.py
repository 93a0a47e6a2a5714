"""Partition records that have a layout as rows of events: nearly all records of a busy log and of every snapshot."""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, Final, TypeAlias

from connectors.errors import UndecodableError
from connectors.event_columns import PARTITION_CHANGED, PARTITION_SET
from connectors.metadata.field_readers import uuid_text
from connectors.metadata.record_layouts import Raw, RecordLayout

PARTITION: Final = 3
PARTITION_CHANGE: Final = 5
UNCHANGED_LEADER: Final = -2
"""PartitionChangeRecord.leader if the leader is unchanged; -1 is no leader."""
UNCHANGED_STATE: Final = -1
"""PartitionChangeRecord.leaderRecoveryState if it is unchanged."""
RowOf: TypeAlias = Callable[[Raw], "tuple[Any, ...] | None"]
"""Returns the fields of `EventRow` from `topic_id` on; None if `record_to_event` must decide."""

_RECOVERED: Final = 0
_RECOVERING: Final = 1
_NODE: Final = Struct(">i")
_LISTS: Final = (
    "replicas",
    "isr",
    "eligible_leader_replicas",
    "last_known_elr",
    "removing_replicas",
    "adding_replicas",
)
_KEY: Final = ("topic_id", "partition_id", "leader", "leader_recovery_state", *_LISTS)


def row_of(layout: RecordLayout) -> tuple[str, RowOf] | None:
    """Returns the type of the event and the function that makes its row; None for records of other types."""
    if "row" not in layout.known:
        layout.known["row"] = _row_of(layout)
    found: tuple[str, RowOf] | None = layout.known["row"]
    return found


def _row_of(layout: RecordLayout) -> tuple[str, RowOf] | None:
    match layout.schema.name:
        case "PartitionRecord":
            return PARTITION_SET, _set_row(layout)
        case "PartitionChangeRecord":
            return PARTITION_CHANGED, _changed_row(layout)
        case _:
            return None


def _set_row(layout: RecordLayout) -> RowOf:
    pick = layout.picker((*_KEY, "leader_epoch", "partition_epoch"))

    def row(values: Raw) -> tuple[Any, ...] | None:
        raw, partition, leader, state, *packed, leader_epoch, partition_epoch = pick(values)
        try:
            topic, (replicas, isr, elr, last_known_elr, _, _) = _topic_id(raw), map(_nodes, packed)
        except _InvalidValue:
            return None
        if not replicas or partition < 0 or min(leader, leader_epoch, partition_epoch) < -1 or not 0 <= state <= 1:
            return None
        lists = (replicas, isr, elr or [], last_known_elr or [])
        led = None if leader < 0 else leader
        return topic, partition, *lists, led, True, leader_epoch, partition_epoch, state == _RECOVERING, None

    return row


def _changed_row(layout: RecordLayout) -> RowOf:
    pick = layout.picker(_KEY)

    def row(values: Raw) -> tuple[Any, ...] | None:
        raw, partition, leader, state, *packed = pick(values)
        try:
            topic, lists = _topic_id(raw), [*map(_nodes, packed[:4])]
            _ = [*map(_nodes, packed[4:])]
        except _InvalidValue:
            return None
        if lists[0] == [] or partition < 0 or leader < UNCHANGED_LEADER or not UNCHANGED_STATE <= state <= 1:
            return None
        recovers = None if state == UNCHANGED_STATE else state == _RECOVERING
        led = None if leader < 0 else leader
        return topic, partition, *lists, led, leader != UNCHANGED_LEADER, None, None, recovers, None

    return row


class _InvalidValue(Exception):
    """No Kafka writes such a value."""


@lru_cache(maxsize=1 << 14)
def _topic_id(raw: bytes) -> str:
    """Returns a topic's UUID as Kafka prints it. Cached, because adjacent records share it."""
    printed = uuid_text(raw)
    if printed is None:
        raise _InvalidValue
    return printed


@lru_cache(maxsize=1 << 15)
def _nodes(packed: bytes | None) -> list[int] | None:
    """Returns node ids, which must be valid and differ from each other; None for no list.

    Cached, because many partitions have the same replicas, and nearly all of them the same replicas in sync.
    """
    if packed is None:
        return None
    nodes = [node for (node,) in _NODE.iter_unpack(packed)]
    if nodes and (min(nodes) < 0 or len({*nodes}) < len(nodes)):
        raise _InvalidValue
    return nodes


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
