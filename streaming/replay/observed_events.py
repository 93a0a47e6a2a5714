"""The events of one observation, of which many may be together in a run."""

from collections.abc import Iterable, Iterator

from connectors.observations.log_event import Undecodable
from connectors.observations.partition_run import DecodedItem


def event_count(items: Iterable[DecodedItem]) -> int:
    """Returns the number of events, those of runs included."""
    return sum(len(item) if item.type == "partition-run" else 1 for item in items)


def first_offset(items: Iterable[DecodedItem]) -> int | None:
    """Returns the offset of the first event that has one."""
    for item in items:
        if item.type == "partition-run":
            return item.first_offset
        at = getattr(item, "at", None)
        offset = getattr(item, "offset", None) if at is None else at.offset
        if isinstance(offset, int):
            return offset
    return None


def undecodable_events(items: Iterable[DecodedItem]) -> Iterator[tuple[int, Undecodable]]:
    """Yields each Undecodable after its ordinal, the number of events before it."""
    ordinal = 0
    for item in items:
        if item.type == "undecodable":
            yield ordinal, item
        ordinal += len(item) if item.type == "partition-run" else 1
