"""Topic and partition records that have a layout as rows of a PartitionRun.

A layout's values are those of the schema, so only what the converters of `record_to_event` check is checked here.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from connectors.errors import UndecodableError
from connectors.metadata.batches import RecordBatch
from connectors.metadata.field_readers import uuid_text
from connectors.metadata.record_layouts import OFFSET_DELTA, NarrowLayout, Raw, RecordLayout, zigzag
from connectors.metadata.value_limits import MOST_REPLICAS
from connectors.observations.partition_run import Directories, PartitionValues, RunRow
from rules.model.identifiers import DirectoryId, NodeId, TopicId

UNCHANGED_LEADER: Final = -2
"""PartitionChangeRecord.leader if the leader is unchanged; -1 is no leader."""
UNCHANGED_STATE: Final = -1
"""PartitionChangeRecord.leaderRecoveryState if it is unchanged."""
RowOf: TypeAlias = Callable[[bytes, int, int, Raw], RunRow | None]
"""Returns the row of a record; None if `record_to_event` must decide. The record is given as the bytes that hold it,
where it begins in them, its offset delta, and its values."""

_RECOVERED: Final = 0
_RECOVERING: Final = 1
_ABSENT: Final = -1
_MOST_KNOWN: Final = 1 << 15
_MOST_BEGINNINGS: Final = 64
"""Odd records must not fill the memory."""
_MOST_ALIKE: Final = 16
"""Layouts of records that begin with the same bytes: each of them is tried."""
_NODE: Final = Struct(">i")
_UUID_BYTES: Final = 16
_KEY: Final = ("topic_id", "partition_id")
_EPOCHS: Final = ("leader_epoch", "partition_epoch")
_DIRECTORIES: Final = "directories"
_VALUES: Final = (
    "replicas",
    "isr",
    "eligible_leader_replicas",
    "last_known_elr",
    "removing_replicas",
    "adding_replicas",
    "leader",
    "leader_recovery_state",
)


class _KnownRecords(NamedTuple):
    """The values of partition records of one layout that were read, by all bytes except numbers and ids.

    Many partitions have the same values, so one look-up replaces reading the fields.
    """

    layout: NarrowLayout
    has_epochs: bool
    values: dict[object, PartitionValues]


_known: dict[bytes, tuple[_KnownRecords, ...]] = {}
"""By the first two bytes of the record."""


def read_known(chunk: bytes, batch: RecordBatch, position: int, delta: int, rows: list[RunRow]) -> tuple[int, int]:
    """Appends the rows of partition records with known values, up to the first other record.

    Returns:
        Where that other record begins, and its offset delta.
    """
    end, most = batch.end, 0 if batch.is_control else batch.record_count
    while delta < most:
        for (size, _, unpack, fields, rest), has_epochs, known in _known.get(chunk[position : position + 2], ()):
            after = position + size
            if after > end:
                continue
            raw = unpack(chunk, position)
            values = known.get(rest(raw))
            if values is None:
                continue
            if has_epochs:
                encoded, topic, partition, packed, leader_epoch, partition_epoch = fields(raw)
                if leader_epoch < _ABSENT or partition_epoch < _ABSENT:
                    continue
            else:
                encoded, topic, partition, packed = fields(raw)
                leader_epoch = partition_epoch = None
            topic_id = _topic_id(topic)
            if encoded == zigzag(delta) and topic_id is not None and partition >= 0:
                directories = _directories(packed) if packed else None
                rows.append((delta, topic_id, partition, values, leader_epoch, partition_epoch, directories))
                position = after
                break
        else:
            break
        delta += 1
    return position, delta


@lru_cache(maxsize=1 << 13)
def row_of(layout: RecordLayout) -> RowOf | None:
    """Returns the function that makes the rows of a layout; None for records of other types."""
    match layout.schema.name:
        case "PartitionRecord":
            return _partition_row(layout, (*_KEY, _DIRECTORIES, *_EPOCHS))
        case "PartitionChangeRecord":
            return _partition_row(layout, (*_KEY, _DIRECTORIES))
        case "TopicRecord":
            return _topic_row(layout)
        case _:
            return None


def _partition_row(layout: RecordLayout, names: tuple[str, ...]) -> RowOf:
    pick, pick_values = layout.picker(names), layout.picker(_VALUES)
    narrow, head = layout.narrowed((OFFSET_DELTA, *names)), layout.expected[0][:2]
    is_change = layout.schema.name == "PartitionChangeRecord"

    def row(chunk: bytes, position: int, delta: int, raw: Raw) -> RunRow | None:
        topic, partition, packed, *epochs = pick(raw)
        values, topic_id = _values(*pick_values(raw), changes=is_change), _topic_id(topic)
        if topic_id is None or values is None or partition < 0 or any(epoch < _ABSENT for epoch in epochs):
            return None
        directories = _directories(packed) if packed else None
        known = _known_records(narrow, head, has_epochs=not is_change)
        known.values[narrow.rest(narrow.unpack(chunk, position))] = values
        leader_epoch, partition_epoch = epochs or (None, None)
        return delta, topic_id, partition, values, leader_epoch, partition_epoch, directories

    return row


def _known_records(layout: NarrowLayout, head: bytes, *, has_epochs: bool) -> _KnownRecords:
    """Returns those of a layout, with room for one more."""
    for known in _known.get(head, ()):
        if known.layout.format == layout.format:
            if len(known.values) >= _MOST_KNOWN:
                known.values.clear()
            return known
    if len(_known) >= _MOST_BEGINNINGS:
        _known.clear()
    known = _KnownRecords(layout, has_epochs, {})
    _known[head] = (known, *_known.get(head, ())[: _MOST_ALIKE - 1])
    return known


def _topic_row(layout: RecordLayout) -> RowOf:
    pick = layout.picker(("topic_id", "name"))

    def row(_: bytes, __: int, delta: int, raw: Raw) -> RunRow | None:
        topic, name = pick(raw)
        topic_id = _topic_id(topic)
        try:
            return None if topic_id is None else (delta, topic_id, 0, name.decode(), None, None, None)
        except UnicodeDecodeError:
            return None

    return row


@lru_cache(maxsize=1 << 14)
def _topic_id(raw: bytes) -> TopicId | None:
    """Returns a topic's UUID as Kafka prints it; None for the zero UUID. Cached: adjacent records share it."""
    printed = uuid_text(raw)
    return None if printed is None else TopicId(printed)


@lru_cache(maxsize=1 << 15)
def _directories(packed: bytes) -> Directories:
    """Returns directory ids. Cached: partitions with the same replicas often have the same directories."""
    return tuple(_directory(packed[start : start + _UUID_BYTES]) for start in range(0, len(packed), _UUID_BYTES))


@lru_cache(maxsize=1 << 14)
def _directory(raw: bytes) -> DirectoryId | None:
    printed = uuid_text(raw)
    return None if printed is None else DirectoryId(printed)


def _values(*raw: bytes | int | None, changes: bool) -> PartitionValues | None:
    """Returns the values of a PartitionRecord, or of a PartitionChangeRecord; None if no Kafka writes such values."""
    *packed, leader, state = raw
    assert isinstance(leader, int)
    try:
        lists = [_nodes(each) for each in packed]
    except UndecodableError:
        return None
    states = (UNCHANGED_STATE, _RECOVERED, _RECOVERING) if changes else (_RECOVERED, _RECOVERING)
    if lists[0] == () or leader < (UNCHANGED_LEADER if changes else _ABSENT) or state not in states:
        return None
    replicas, isr, elr, last_known_elr, removing, adding = lists if changes else [nodes or () for nodes in lists]
    led, is_set = None if leader < 0 else NodeId(leader), leader != UNCHANGED_LEADER
    recovers = None if state == UNCHANGED_STATE else state == _RECOVERING
    return PartitionValues(
        *(replicas, isr, elr, last_known_elr, led),
        leader_set=is_set,
        recovering=recovers,
        adding=adding,
        removing=removing,
    )


@lru_cache(maxsize=1 << 15)
def _nodes(packed: bytes | None) -> tuple[NodeId, ...] | None:
    """Returns node ids; None for no list.

    Raises:
        UndecodableError: one is negative or listed twice, or there are too many.
    """
    if packed is None:
        return None
    nodes = tuple(NodeId(node) for (node,) in _NODE.iter_unpack(packed))
    if nodes and (min(nodes) < 0 or len({*nodes}) < len(nodes) or len(nodes) > MOST_REPLICAS):
        raise UndecodableError("has an invalid list of nodes")
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
