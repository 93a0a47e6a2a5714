"""What the conditions of `.where(...)` say about one column, so that a reader skips what cannot match.

Spark passes those that compare a column with a value, connected by AND. A reader returns all of them: Spark evaluates
them again, so a condition that is not used here changes what is read, never the result.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession
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

_ENABLED: Final = "spark.sql.python.filterPushdown.enabled"
_LARGEST: Final = (1 << 63) - 1
_MOST_VALUES: Final = 1_000
"""A longer list is not used."""


def enable_filters(spark: SparkSession) -> None:
    """Makes Spark pass conditions; without it, it refuses a reader that takes them."""
    spark.conf.set(_ENABLED, "true")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The values of a whole-number column that may match: low <= value <= high; None: no bound."""

    low: int | None = None
    high: int | None = None

    def overlap(self, low: int, high: int | None) -> bool:
        """Returns whether a value from low to high may match."""
        return (self.high is None or low <= self.high) and (self.low is None or high is None or high >= self.low)


def bounds(filters: Iterable[Filter], column: str) -> Bounds:
    """Returns the bounds of a column."""
    lows: list[int] = []
    highs: list[int] = []
    for each in _of(filters, column):
        match each:
            case EqualTo(value=int(value)) | EqualNullSafe(value=int(value)):
                lows.append(value)
                highs.append(value)
            case In(value=values) if values and all(isinstance(one, int) for one in values):
                lows.append(min(values))
                highs.append(max(values))
            case GreaterThan(value=int(value)):
                lows.append(min(value + 1, _LARGEST))
            case GreaterThanOrEqual(value=int(value)):
                lows.append(value)
            case LessThan(value=int(value)):
                highs.append(max(value - 1, -_LARGEST))
            case LessThanOrEqual(value=int(value)):
                highs.append(value)
            case _:
                pass
    return Bounds(low=max(lows, default=None), high=min(highs, default=None))


def wanted(filters: Iterable[Filter], column: str) -> frozenset[Any] | None:
    """Returns the only values of a column that may match; None: any."""
    found: frozenset[Any] | None = None
    for each in _of(filters, column):
        match each:
            case EqualTo(value=value) | EqualNullSafe(value=value):
                values = frozenset([value])
            case In(value=several) if len(several) <= _MOST_VALUES:
                # A comparison with null is never true.
                values = frozenset(one for one in several if one is not None)
            case Not(child=EqualTo(value=bool(value))):
                values = frozenset([not value])
            case _:
                continue
        found = values if found is None else found & values
    return found


def _of(filters: Iterable[Filter], column: str) -> Iterable[Filter]:
    for each in filters:
        compared = each.child if isinstance(each, Not) else each
        if getattr(compared, "attribute", None) == (column,):
            yield each
