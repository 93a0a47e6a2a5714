"""EventColumns: events as a table of plain columns, the form in which they pass through Arrow.

Nearly all events of a log are PartitionSet or PartitionChanged: their fields have columns of their own. Every other
event is stored as JSON in `body`; its other columns only repeat its position in the log.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, SupportsInt, TypeAlias, assert_never

from connectors.event import Event, from_json, to_json
from connectors.log_event import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ControllerRegistered,
    ElrCleared,
    FeatureLevelSet,
    KRaftVersionSet,
    LeaderChanged,
    LogAdvanced,
    PartitionChanged,
    PartitionSet,
    RecordPosition,
    SnapshotBegan,
    SnapshotEnded,
    TopicCreated,
    TopicRemoved,
    TransactionBegan,
    TransactionEnded,
    Undecodable,
    VotersReplaced,
)
from connectors.observation_event import ObservationEvent
from rules.model.identifiers import Epoch, Millis, NodeId, Offset, TopicId

if TYPE_CHECKING:
    # Whoever makes a block has imported numpy; on-call commands that read little need not.
    from connectors.event_block import EventBlock

PARTITION_SET: Final = "partition-set"
PARTITION_CHANGED: Final = "partition-changed"


class EventRow(NamedTuple):
    """One event. A tuple, because a snapshot of a big cluster holds a million events."""

    type: str
    """The event's `type`."""
    offset: int | None
    leader_epoch: int | None
    timestamp_ms: int | None
    snapshot: bool
    topic_id: str | None = None
    partition: int | None = None
    replicas: list[int] | None = None
    """None = unchanged, as with `isr`, both ELRs and `recovering`; never None in a PartitionSet."""
    isr: list[int] | None = None
    elr: list[int] | None = None
    last_known_elr: list[int] | None = None
    leader: int | None = None
    leader_set: bool | None = None
    partition_leader_epoch: int | None = None
    partition_epoch: int | None = None
    recovering: bool | None = None
    body: bytes | None = None
    """`connectors.event.to_json` of the event; None for the two partition types."""


COLUMNS: Final = ("ordinal", *EventRow._fields)
"""The names of the columns, in order. `ordinal` counts the events of one observation from 0."""

Columns: TypeAlias = Mapping[str, Sequence[Any]]


class EventColumns:
    """A growing table of events, in order: single events, and blocks of many."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.rows: list[tuple[Any, ...]] = []
        """The events after the last block, as tuples with the fields of EventRow in its order. The decoder appends
        partition events here directly, which is faster than building a dataclass."""
        self._parts: list[list[tuple[Any, ...]] | EventBlock] = []
        """The events before them."""
        for event in events:
            self.append(event)

    def __len__(self) -> int:
        return sum(map(len, self.parts()))

    def append(self, event: Event) -> None:
        """Appends one event."""
        self.rows.append(event_row(event))

    def append_stored(self, event: Event, stored: bytes) -> None:
        """Appends one event, of which `stored` is the JSON form already."""
        if isinstance(event, ObservationEvent):
            self.rows.append(EventRow(event.type, None, None, None, snapshot=False, body=stored))
        else:
            self.append(event)

    def append_block(self, block: "EventBlock") -> None:
        """Appends the events of a block."""
        self._parts = [*self.parts(), block]
        self.rows = []

    def parts(self) -> "list[list[tuple[Any, ...]] | EventBlock]":
        """Returns all events in order, as lists of rows and blocks."""
        return [*self._parts, self.rows] if self.rows else self._parts

    def columns(self) -> dict[str, list[Any]]:
        """Returns every column by name, all of the same length. Lists hold ints; None is absent."""
        rows: list[tuple[Any, ...]] = []
        for part in self.parts():
            rows += part if isinstance(part, list) else part.rows(PARTITION_SET, PARTITION_CHANGED)
        if not rows:
            return {name: [] for name in COLUMNS}
        columns = [list(column) for column in zip(*rows, strict=True)]
        return dict(zip(COLUMNS, ([*range(len(rows))], *columns), strict=True))

    def events(self) -> Iterator[Event]:
        """Yields the events in the order in which they were appended."""
        for part in self.parts():
            yield from events_from_rows(part) if isinstance(part, list) else block_events(part)

    def items(self) -> "Iterator[Event | EventBlock]":
        """Yields the events in the order in which they were appended; those of a block together, as the block."""
        for part in self.parts():
            if isinstance(part, list):
                yield from events_from_rows(part)
            else:
                yield part


def event_row(event: Event) -> EventRow:
    """Returns one event as a row."""
    if isinstance(event, ObservationEvent):
        return EventRow(event.type, None, None, None, snapshot=False, body=to_json(event))
    match event:
        case PartitionSet():
            return EventRow(
                *_position_columns(event.type, event.at),
                topic_id=event.topic_id,
                partition=event.partition,
                replicas=list(event.replicas),
                isr=list(event.isr),
                elr=list(event.elr),
                last_known_elr=list(event.last_known_elr),
                leader=event.leader,
                leader_set=True,
                partition_leader_epoch=event.partition_leader_epoch,
                partition_epoch=event.partition_epoch,
                recovering=event.recovering,
            )
        case PartitionChanged():
            return EventRow(
                *_position_columns(event.type, event.at),
                topic_id=event.topic_id,
                partition=event.partition,
                replicas=None if event.replicas is None else list(event.replicas),
                isr=None if event.isr is None else list(event.isr),
                elr=None if event.elr is None else list(event.elr),
                last_known_elr=None if event.last_known_elr is None else list(event.last_known_elr),
                leader=event.leader,
                leader_set=event.leader_set,
                recovering=event.recovering,
            )
        case LogAdvanced():
            position = (event.type, event.last_offset, event.leader_epoch, event.newest_timestamp_ms, False)
            return EventRow(*position, body=to_json(event))
        case Undecodable():
            return EventRow(event.type, event.offset, None, None, snapshot=False, body=to_json(event))
        case (
            SnapshotBegan()
            | SnapshotEnded()
            | LeaderChanged()
            | KRaftVersionSet()
            | VotersReplaced()
            | FeatureLevelSet()
            | ControllerRegistered()
            | BrokerRegistered()
            | BrokerChanged()
            | BrokerUnregistered()
            | TopicCreated()
            | TopicRemoved()
            | ElrCleared()
            | TransactionBegan()
            | TransactionEnded()
        ):
            return EventRow(*_position_columns(event.type, event.at), body=to_json(event))
        case _:
            assert_never(event)


def events_from_columns(columns: Columns) -> Iterator[Event]:
    """Yields the events of a table, in its order; the inverse of `EventColumns.columns`.

    Args:
        columns: the columns by name, as lists or as Arrow or pandas return them. In pandas an absent value may be NaN,
            a list may be an array, and a number may be a float (exact up to 2**53) or a numpy scalar. `ordinal` may
            be missing.

    Raises:
        pydantic.ValidationError: a `body` is not an event (a ValueError).
    """
    return events_from_rows(zip(*(columns[name] for name in EventRow._fields), strict=True))


def block_events(block: "EventBlock") -> Iterator[Event]:
    """Yields the events of a block, in order."""
    return events_from_rows(block.rows(PARTITION_SET, PARTITION_CHANGED))


def events_from_rows(rows: Iterable[tuple[Any, ...]]) -> Iterator[Event]:
    """Yields the events of rows with the fields of EventRow.

    Raises:
        pydantic.ValidationError: a `body` is not an event (a ValueError).
    """
    for values in rows:
        row = EventRow(*values)
        if row.type == PARTITION_SET:
            yield _partition_set(row)
        elif row.type == PARTITION_CHANGED:
            yield _partition_changed(row)
        else:
            assert row.body is not None
            yield from_json(bytes(row.body))


def _partition_set(row: EventRow) -> PartitionSet:
    return PartitionSet(
        at=_position(row),
        topic_id=TopicId(str(row.topic_id)),
        partition=_int(row.partition),
        replicas=_nodes(row.replicas),
        isr=_nodes(row.isr),
        elr=_nodes(row.elr),
        last_known_elr=_nodes(row.last_known_elr),
        leader=_leader(row.leader),
        partition_leader_epoch=_int(row.partition_leader_epoch),
        partition_epoch=None if _is_absent(row.partition_epoch) else _int(row.partition_epoch),
        recovering=bool(row.recovering),
    )


def _partition_changed(row: EventRow) -> PartitionChanged:
    return PartitionChanged(
        at=_position(row),
        topic_id=TopicId(str(row.topic_id)),
        partition=_int(row.partition),
        replicas=None if _is_absent(row.replicas) else _nodes(row.replicas),
        isr=None if _is_absent(row.isr) else _nodes(row.isr),
        elr=None if _is_absent(row.elr) else _nodes(row.elr),
        last_known_elr=None if _is_absent(row.last_known_elr) else _nodes(row.last_known_elr),
        leader=_leader(row.leader),
        leader_set=bool(row.leader_set),
        recovering=None if _is_absent(row.recovering) else bool(row.recovering),
    )


def _position_columns(type_: str, at: RecordPosition) -> tuple[str, int, int, int, bool]:
    return type_, at.offset, at.leader_epoch, at.timestamp_ms, at.snapshot


def _position(row: EventRow) -> RecordPosition:
    return RecordPosition(
        offset=Offset(_int(row.offset)),
        leader_epoch=Epoch(_int(row.leader_epoch)),
        timestamp_ms=Millis(_int(row.timestamp_ms)),
        snapshot=bool(row.snapshot),
    )


def _is_absent(value: object) -> bool:
    """Whether a value is None, or NaN, which pandas puts in its place."""
    return value is None or (isinstance(value, float) and value != value)


def _int(value: SupportsInt | None) -> int:
    assert value is not None
    return int(value)


def _leader(value: SupportsInt | None) -> NodeId | None:
    return None if value is None or _is_absent(value) else NodeId(int(value))


def _nodes(values: Iterable[SupportsInt] | None) -> tuple[NodeId, ...]:
    assert values is not None
    return tuple(NodeId(int(value)) for value in values)
