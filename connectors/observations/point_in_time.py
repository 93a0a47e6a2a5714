"""PointInTime: a past state that a user asks for, by an offset of the metadata log or by a time."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from rules.model.identifiers import Millis, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class AtOffset:
    """The state after the record at this offset was applied, and before the next one."""

    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class AtTime:
    """The state with everything up to and including this time, milliseconds since the Unix epoch."""

    at_ms: Millis


PointInTime: TypeAlias = AtOffset | AtTime


def parse_time(text: str) -> Millis:
    """Parses a time in ISO 8601; UTC if it names no time zone. Returns milliseconds since the Unix epoch.

    Raises:
        ValueError: it is not a time.
    """
    when = datetime.fromisoformat(text)
    try:
        utc = when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    except OverflowError:
        raise ValueError("it is not in the years 1 to 9999 in UTC") from None
    return Millis((utc - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))
