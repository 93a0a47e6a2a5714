"""Yields the events of one observation for the machine; the records of a block are applied to the log by column."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from connectors.event import Event
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
