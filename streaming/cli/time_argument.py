"""Parses the points in time of the command line: `--at`, `--from`, `--to`, `--until`."""

import re

from connectors.errors import UsageError
from connectors.point_in_time import AtOffset, AtTime, PointInTime, parse_time
from rules.model.identifiers import Millis, Offset


def parse_point_in_time(text: str) -> PointInTime:
    """Parses the value of `--at`: an offset of the metadata log, or a time.

    Raises:
        UsageError: it is neither.
    """
    if re.fullmatch(r"[0-9]+", text):
        return AtOffset(offset=Offset(int(text)))
    try:
        return AtTime(at_ms=parse_time(text))
    except ValueError:
        raise UsageError(f"--at {text}: expected an OFFSET or a TIME such as 2026-11-20T08:15:00Z") from None


def parse_time_option(option: str, text: str | None) -> Millis | None:
    """Parses the value of an option that is a time; None if it was not given.

    Raises:
        UsageError: it is not a time.
    """
    if text is None:
        return None
    try:
        return parse_time(text)
    except ValueError:
        raise UsageError(f"{option} {text}: expected a TIME such as 2026-11-20T08:15:00Z") from None
