"""The events of one observation, of which many may be together in a block, which is applied to the log by column."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from connectors.event import Event
from connectors.event_columns import block_events, events_from_rows
from connectors.log_event import Undecodable
from streaming.replay.machine_state import MachineState

if TYPE_CHECKING:
    from connectors.event_block import EventBlock

ObservedEvent: TypeAlias = "Event | EventBlock"


def remaining_events(machine: MachineState, events: Iterable[ObservedEvent]) -> Iterator[Event]:
    """Applies what can be applied by column; yields each other event, which must be applied before the next is taken.

    Args:
        machine: its log, or the snapshot that it reads, receives the records of blocks.
        events: of one observation, in order.
    """
    for event in events:
        if event.type != "event-block":
            yield event
            continue
        # Imported here, because on-call commands that read no log need no numpy.
        from streaming.replay.block_replay import apply_block, left_out_events

        log = machine.loading if event.snapshot else machine.log
        yield from left_out_events(event) if log is None else apply_block(log, event)


def event_count(events: Iterable[ObservedEvent]) -> int:
    """Returns the number of events, those of blocks included."""
    return sum(len(event) if event.type == "event-block" else 1 for event in events)


def each_event(events: Iterable[ObservedEvent]) -> Iterator[Event]:
    """Yields every event by itself, those of blocks included."""
    for one in events:
        if one.type == "event-block":
            yield from block_events(one)
        else:
            yield one


def first_offset(events: Iterable[ObservedEvent]) -> int | None:
    """Returns the offset of the first event that has one."""
    for event in each_event(events):
        at = getattr(event, "at", None)
        offset = getattr(event, "offset", None) if at is None else at.offset
        if isinstance(offset, int):
            return offset
    return None


def undecodable_events(events: Iterable[ObservedEvent]) -> Iterator[tuple[int, Undecodable]]:
    """Yields each Undecodable after its ordinal, the number of events before it."""
    ordinal = 0
    for event in events:
        if event.type != "event-block":
            if event.type == "undecodable":
                yield ordinal, event
            ordinal += 1
            continue
        for at, row in zip(event.other_at.tolist(), event.others, strict=True):
            if row[0] == "undecodable":
                for one in events_from_rows([row]):
                    assert isinstance(one, Undecodable)
                    yield ordinal + at, one
        ordinal += len(event)
