"""What a query requests of a data source: some columns, and the rows that match Spark's pushed-down filters.

PySpark's data source API passes no column choice, so `.schema(...)` names the columns. The filters are a conjunction:
they only exclude what certainly does not match, and Spark evaluates all of them again.
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
from pyspark.sql.types import StructType

from connectors.errors import UsageError
from connectors.sinks.sink import LATEST_MS

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
Interval = tuple[int | None, int | None]
"""The lowest and the highest number that may match; None = no bound."""


def require_columns(full: StructType, requested: StructType) -> None:
    """Raises UsageError if a schema of `.schema(...)` has a column that does not exist or has another type."""
    for field in requested:
        if field.name not in full.names:
            raise UsageError(f"there is no column {field.name}: the columns are {', '.join(full.names)}")
        expected = full[field.name].dataType
        if field.dataType != expected:
            raise UsageError(
                f"the column {field.name} is of type {expected.simpleString()}, not {field.dataType.simpleString()}"
            )


def timestamp_us(milliseconds: int | None) -> int | None:
    """Returns a time in microseconds, as Spark stores it; None if not in the years 1970 to 9999, which Spark prints."""
    return milliseconds * 1000 if milliseconds is not None and 0 <= milliseconds <= LATEST_MS else None


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
