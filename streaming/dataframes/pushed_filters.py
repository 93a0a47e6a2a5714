"""What Spark's pushed-down filters say about a column: its bounds, or the only values that match.

The filters are a conjunction. They only exclude what certainly does not match; Spark evaluates all of them again.
"""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
Interval = tuple[int | None, int | None]
"""The lowest and the highest number that may match; None = no bound."""


def bounds(filters: Iterable[Filter], column: str) -> Interval:
    """Returns the bounds of a column with numbers or times, inclusive; times in ms since the Unix epoch."""
    lowest: list[int] = []
    highest: list[int] = []
    for one in filters:
        match one:
            case EqualTo((name,), value) | EqualNullSafe((name,), value) if name == column:
                lowest += _numbers([value])
                highest += _numbers([value])
            case In((name,), values) if name == column and len(numbers := _numbers(values)) == len(values):
                lowest.append(min(numbers))
                highest.append(max(numbers))
            case GreaterThan((name,), value) | GreaterThanOrEqual((name,), value) if name == column:
                lowest += _numbers([value])
            case LessThan((name,), value) | LessThanOrEqual((name,), value) if name == column:
                highest += _numbers([value])
            case _:
                pass
    return max(lowest, default=None), min(highest, default=None)


def may_overlap(interval: Interval, lowest: int, highest: int) -> bool:
    """Whether a number from `lowest` to `highest` may match."""
    least, most = interval
    return (least is None or highest >= least) and (most is None or lowest <= most)


def matching_values(filters: Iterable[Filter], column: str) -> Collection[object] | None:
    """Returns the only values of a column with strings or booleans that match; None if any may match."""
    found: set[object] | None = None
    for one in filters:
        match one:
            case EqualTo((name,), value) if name == column:
                values: set[object] = {value}
            case Not(EqualTo((name,), bool(value))) if name == column:
                values = {not value}
            case In((name,), several) if name == column:
                values = set(several)
            case _:
                continue
        found = values if found is None else found & values
    return found


def _numbers(values: Iterable[object]) -> list[int]:
    """Returns the values that are numbers or times. A fraction of a millisecond is dropped: no row has one."""
    numbers: list[int] = []
    for value in values:
        match value:
            case bool():
                pass
            case int():
                numbers.append(value)
            case datetime():
                # Not from `timestamp()`: a float of seconds is not exact.
                numbers.append((value.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1))
            case _:
                pass
    return numbers
