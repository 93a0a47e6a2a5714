"""Reads an observation as of a point in time, and checks that a source reaches that far."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from connectors.errors import UsageError
from connectors.observations.log_event import LogAdvanced
from connectors.observations.observation import Observation, ObservationKind
from connectors.observations.partition_run import DecodedItem
from connectors.observations.point_in_time import AtOffset, AtTime, PointInTime
from connectors.sinks.alert_json import iso
from rules.model.identifiers import Millis, Offset
from streaming.replay.decoded_row import decode_observation


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceExtent:
    """The first and last offset and time that a source holds of one cluster; None where it holds none."""

    first_offset: int | None = None
    last_offset: int | None = None
    first_ms: int | None = None
    last_ms: int | None = None

    def with_row(self, row: Observation) -> "SourceExtent":
        """Returns the extent with one more row of a journal."""
        ends: list[int] = []
        if row.kind is ObservationKind.RECORDS and row.last_offset is not None:
            ends.append(row.last_offset)
        if row.kind is ObservationKind.SNAPSHOT and row.base_offset:
            ends.append(row.base_offset - 1)
        begins = [row.base_offset] if row.kind is ObservationKind.RECORDS and row.base_offset is not None else ends
        return SourceExtent(
            first_offset=min((*begins, *_known(self.first_offset)), default=None),
            last_offset=max((*ends, *_known(self.last_offset)), default=None),
            first_ms=min((row.observed_at_ms, *_known(self.first_ms))),
            last_ms=max((row.observed_at_ms, *_known(self.last_ms))),
        )


def _known(value: int | None) -> tuple[int, ...]:
    return () if value is None else (value,)


def events_upto(row: Observation, upto: PointInTime | None) -> Iterator[DecodedItem]:
    """Yields the events of one observation; of log records only those up to the offset of `upto`."""
    if row.kind is not ObservationKind.RECORDS or not isinstance(upto, AtOffset):
        yield from decode_observation(row)
        return
    last = None if row.last_offset is None else min(row.last_offset, upto.offset)
    # The high watermark is lowered with the last offset: the replay then takes the log as read to its end.
    high_watermark = None if row.high_watermark is None else min(row.high_watermark, upto.offset + 1)
    for event in decode_observation(replace(row, last_offset=last, high_watermark=high_watermark)).events():
        at = getattr(event, "at", None)
        if isinstance(event, LogAdvanced) or at is None or at.offset <= upto.offset:
            yield event


def require_within(upto: PointInTime | None, extent: SourceExtent, source: str) -> None:
    """Checks that a source holds a point in time.

    Args:
        upto: the point in time; None is always held.
        extent: what the source holds.
        source: names it, as in `the journal of cluster a`.

    Raises:
        UsageError: the point in time lies outside.
    """
    if upto is None:
        return
    if isinstance(upto, AtOffset):
        first, last = extent.first_offset, extent.last_offset
        asked: int = upto.offset
    else:
        first, last, asked = extent.first_ms, extent.last_ms, upto.at_ms
    if first is None or last is None:
        raise UsageError(f"--at {spelled(upto)}: {source} holds no metadata log")
    if asked < first:
        raise UsageError(f"--at {spelled(upto)}: {source} begins with {spelled(_like(upto, first))}")
    if asked > last:
        raise UsageError(f"--at {spelled(upto)}: {source} ends with {spelled(_like(upto, last))}")


def _like(moment: PointInTime, value: int) -> PointInTime:
    return AtOffset(offset=Offset(value)) if isinstance(moment, AtOffset) else AtTime(at_ms=Millis(value))


def spelled(moment: PointInTime) -> str:
    """Returns a point in time as it is given on the command line."""
    match moment:
        case AtOffset(offset=offset):
            return str(offset)
        case AtTime(at_ms=at_ms):
            return iso(at_ms)
