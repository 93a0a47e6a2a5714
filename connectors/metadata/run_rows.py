"""Topic and partition records that have a pattern as rows of a PartitionRun.

The values of a pattern are those of the schema, so only what the converters of `record_to_event` check is checked here.
Adjacent records have the same topic, and many partitions the same values: they are converted once for the same bytes.
"""

from functools import lru_cache
from struct import Struct
from typing import Final

from connectors.errors import UndecodableError
from connectors.metadata.field_readers import Values, uuid_text
from connectors.metadata.record_patterns import Raw, RecordPattern
from connectors.metadata.value_limits import valid_nodes
from connectors.observations.partition_run import PartitionValues, RunRow
from rules.model.identifiers import NodeId, TopicId

UNCHANGED_LEADER: Final = -2
"""PartitionChangeRecord.leader if the leader is unchanged; -1 is no leader."""
UNCHANGED_STATE: Final = -1
"""PartitionChangeRecord.leaderRecoveryState if it is unchanged."""
_RECOVERED: Final = 0
_RECOVERING: Final = 1
_ABSENT: Final = -1
_LISTS: Final = (
    "replicas",
    "isr",
    "eligible_leader_replicas",
    "last_known_elr",
    "removing_replicas",
    "adding_replicas",
)
_INT32: Final = Struct(">i")
_THREE_INT32: Final = Struct(">iii")


def row_of(pattern: RecordPattern, raw: Raw, delta: int) -> RunRow | None:
    """Returns the row of a record; None if it is of another type, or if `record_to_event` must decide."""
    match pattern.schema.name:
        case "PartitionRecord":
            number, topic, lists, leader, leader_epoch, partition_epoch, rest = raw
            partition, *epochs = _THREE_INT32.unpack(number + leader_epoch + partition_epoch)
            values = _set_values(pattern, lists, leader, rest)
            topic_id = _topic_id(topic)
            if values is None or topic_id is None or partition < 0 or min(epochs) < _ABSENT:
                return None
            return delta, topic_id, partition, values, *epochs
        case "PartitionChangeRecord":
            number, topic, rest = raw
            (partition,), topic_id, values = _INT32.unpack(number), _topic_id(topic), _changed_values(pattern, rest)
            if values is None or topic_id is None or partition < 0:
                return None
            return delta, topic_id, partition, values, None, None
        case "TopicRecord" if pattern.reads(raw):
            name, topic, _ = raw
            topic_id = _topic_id(topic)
            named = pattern.parts[0].read(name)["name"]
            return None if topic_id is None else (delta, topic_id, 0, named, None, None)
        case _:
            return None


@lru_cache(maxsize=1 << 16)
def _set_values(pattern: RecordPattern, lists: bytes, leader: bytes, rest: bytes) -> PartitionValues | None:
    try:
        values = pattern.parts[2].read(lists) | pattern.parts[3].read(leader) | pattern.parts[6].read(rest)
        return _values(values, changes=False)
    except UndecodableError:
        return None


@lru_cache(maxsize=1 << 16)
def _changed_values(pattern: RecordPattern, rest: bytes) -> PartitionValues | None:
    try:
        return _values(pattern.parts[2].read(rest), changes=True)
    except UndecodableError:
        return None


@lru_cache(maxsize=1 << 14)
def _topic_id(raw: bytes) -> TopicId | None:
    """Returns a topic's UUID as Kafka prints it; None for the zero UUID."""
    printed = uuid_text(raw)
    return None if printed is None else TopicId(printed)


def _values(values: Values, *, changes: bool) -> PartitionValues | None:
    """Returns the values of a PartitionRecord, or of a PartitionChangeRecord; None if no Kafka writes such values."""
    leader, state = values["leader"], values["leader_recovery_state"]
    unchanged = UNCHANGED_STATE if changes else _RECOVERED
    nodes = [_nodes(values.get(name)) for name in _LISTS][:4]
    if (
        nodes[0] == ()
        or leader < (UNCHANGED_LEADER if changes else _ABSENT)
        or state not in (unchanged, _RECOVERED, _RECOVERING)
    ):
        return None
    replicas, isr, elr, last_known_elr = nodes if changes else [each or () for each in nodes]
    return PartitionValues(
        replicas,
        isr,
        elr,
        last_known_elr,
        leader=None if leader < 0 else NodeId(leader),
        leader_set=leader != UNCHANGED_LEADER,
        recovering=None if state == UNCHANGED_STATE else state == _RECOVERING,
    )


def _nodes(values: list[int] | None) -> tuple[NodeId, ...] | None:
    """Returns the node ids of a list, one object for equal lists; None for no list.

    Raises:
        UndecodableError: one is negative or listed twice.
    """
    return None if values is None else _shared(tuple(values))


@lru_cache(maxsize=1 << 15)
def _shared(values: tuple[int, ...]) -> tuple[NodeId, ...]:
    return valid_nodes("node", values)


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
