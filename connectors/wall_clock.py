"""The wall clock: the one place that reads it. Rules and replay get times as input and never read a clock."""

import time

from rules.model.identifiers import Millis


def wall_ms() -> Millis:
    """Returns the wall clock in milliseconds since the Unix epoch."""
    return Millis(time.time_ns() // 1_000_000)
