"""Reads an observation as of a point in time, and checks that a source reaches that far."""

from collections.abc import Iterator
from dataclasses import replace

from connectors.errors import UsageError
from connectors.observations.log_event import LogAdvanced
from connectors.observations.observation import Observation, ObservationKind
from connectors.observations.partition_run import DecodedItem
from connectors.observations.point_in_time import AtOffset, AtTime, PointInTime
from rules.formatting import iso
from rules.model.identifiers import Millis
from streaming.replay.decoded_row import decode_observation


def held_at(row: Observation, upto: PointInTime) -> tuple[int, ...]:
    """Returns what a row of a journal holds in the unit of `upto`: its time, or its first and last offset, if any."""
    if isinstance(upto, AtTime):
        return (row.observed_at_ms,)
    if row.kind is ObservationKind.SNAPSHOT:
        return (row.base_offset - 1,) if row.base_offset else ()
    ends = (row.base_offset, row.last_offset) if row.kind is ObservationKind.RECORDS else ()
    return tuple(end for end in ends if end is not None)


def wanted_position(upto: PointInTime) -> int:
    """Returns the offset or the time."""
    return upto.offset if isinstance(upto, AtOffset) else upto.at_ms


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


def require_within(upto: PointInTime, held: tuple[int, int] | None, source: str) -> None:
    """Raises UsageError if a source, named as in `the journal of cluster a`, does not hold a point in time.

    Args:
        held: the first and the last offset or time in it; None: it has none.
    """

    def spelled(position: int) -> str:
        return str(position) if isinstance(upto, AtOffset) else iso(Millis(position))

    wanted = wanted_position(upto)
    if held is None:
        raise UsageError(f"--at {spelled(wanted)}: {source} holds no metadata log")
    if wanted < held[0]:
        raise UsageError(f"--at {spelled(wanted)}: {source} begins with {spelled(held[0])}")
    if wanted > held[1]:
        raise UsageError(f"--at {spelled(wanted)}: {source} ends with {spelled(held[1])}")
