"""A moment, as somebody at a terminal writes it."""

import re
from datetime import UTC, datetime, timedelta

from connectors.errors import UsageError
from connectors.point_in_time import AtOffset, AtTime, Moment
from rules.model.identifiers import Millis, Offset


def moment(text: str) -> Moment:
    """An offset or a time, as `--at` takes it.

    Raises:
        UsageError: it is neither.
    """
    if re.fullmatch(r"[0-9]+", text):
        return AtOffset(offset=Offset(int(text)))
    try:
        return AtTime(at_ms=instant(text))
    except ValueError:
        raise UsageError(f"--at {text}: expected an OFFSET or a TIME as 2026-11-20T08:15:00Z") from None


def instant(text: str) -> Millis:
    """A TIME in ISO 8601, UTC unless it says otherwise.

    Raises:
        ValueError: it is none.
    """
    when = datetime.fromisoformat(text)
    since = (when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return Millis(since // timedelta(milliseconds=1))
