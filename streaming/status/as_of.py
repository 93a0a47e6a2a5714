"""A moment of the past: what of an observation was so then, and whether a source reaches that far."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from connectors.decode_observation import events_of
from connectors.errors import UsageError
from connectors.event import Event, LogAdvanced
from connectors.observation import Kind, Observation
from connectors.point_in_time import AtOffset, AtTime, Moment
from connectors.sinks.alert_json import iso
from rules.model.identifiers import Millis, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """What a source tells of one cluster: the first and the last of its offsets and times; None where it has none."""

    first_offset: int | None = None
    last_offset: int | None = None
    first_ms: int | None = None
    last_ms: int | None = None

    def with_row(self, row: Observation) -> "Extent":
        """And what one more row of a journal tells."""
        ends: list[int] = []
        if row.kind is Kind.RECORDS and row.last_offset is not None:
            ends.append(row.last_offset)
        if row.kind is Kind.SNAPSHOT and row.base_offset:
            ends.append(row.base_offset - 1)
        begins = [row.base_offset] if row.kind is Kind.RECORDS and row.base_offset is not None else ends
        return Extent(
            first_offset=min((*begins, *_there(self.first_offset)), default=None),
            last_offset=max((*ends, *_there(self.last_offset)), default=None),
            first_ms=min((row.observed_at_ms, *_there(self.first_ms))),
            last_ms=max((row.observed_at_ms, *_there(self.last_ms))),
        )


def _there(value: int | None) -> tuple[int, ...]:
    return () if value is None else (value,)


def events_upto(row: Observation, upto: Moment | None) -> Iterator[Event]:
    """The events of one observation; of a log's only those up to an offset."""
    if row.kind is not Kind.RECORDS or not isinstance(upto, AtOffset):
        yield from events_of(row).events()
        return
    last = None if row.last_offset is None else min(row.last_offset, upto.offset)
    # A log that is read as far as it was then is read to its end: it is to be shown.
    high_watermark = None if row.high_watermark is None else min(row.high_watermark, upto.offset + 1)
    for event in events_of(replace(row, last_offset=last, high_watermark=high_watermark)).events():
        at = getattr(event, "at", None)
        if isinstance(event, LogAdvanced) or at is None or at.offset <= upto.offset:
            yield event


def within(upto: Moment | None, extent: Extent, place: str) -> None:
    """Refuse a moment that a source does not tell of.

    Args:
        upto: what is asked for.
        extent: what there is.
        place: names the source, as in `the journal of cluster a`.

    Raises:
        UsageError: the moment lies outside.
    """
    if upto is None:
        return
    if isinstance(upto, AtOffset):
        first, last = extent.first_offset, extent.last_offset
        asked: int = upto.offset
    else:
        first, last, asked = extent.first_ms, extent.last_ms, upto.at_ms
    if first is None or last is None:
        raise UsageError(f"--at {spelled(upto)}: {place} holds no log that could tell")
    if asked < first:
        raise UsageError(f"--at {spelled(upto)}: {place} begins with {spelled(_like(upto, first))}")
    if asked > last:
        raise UsageError(f"--at {spelled(upto)}: {place} ends with {spelled(_like(upto, last))}")


def _like(moment: Moment, value: int) -> Moment:
    return AtOffset(offset=Offset(value)) if isinstance(moment, AtOffset) else AtTime(at_ms=Millis(value))


def spelled(moment: Moment) -> str:
    """As it is given on the command line."""
    match moment:
        case AtOffset(offset=offset):
            return str(offset)
        case AtTime(at_ms=at_ms):
            return iso(at_ms)
