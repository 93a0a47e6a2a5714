"""A chart: what it shows, what it asks Prometheus, and how it looks."""

from dataclasses import dataclass
from enum import Enum

THIRD, HALF, WHOLE = 8, 12, 24


class Look(Enum):
    """How a chart looks."""

    LINES = "lines"
    STATES = "states"
    """A bar for each series that changes colour with its value."""
    NUMBER = "number"
    """The newest value, large."""
    TABLE = "table"
    """A line for each cluster, a column for each question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One question."""

    expr: str
    legend: str
    """What its series are called, with their labels in `{{ }}`; the column's name in a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One panel."""

    title: str
    words: str
    """What it is for somebody who looks at it at 3 a.m."""
    asks: tuple[Ask, ...]
    look: Look = Look.LINES
    width: int = THIRD
    unit: str = "short"
    """Grafana's name of it: short, s, bytes, percentunit."""
    steps: tuple[tuple[float | None, str], ...] = ()
    """Colours from a value on; the first one has none."""
    values: tuple[tuple[str, str, str], ...] = ()
    """A value, the word for it and its colour."""


OK_BELOW = ((None, "green"), (1, "red"))
OF_CLUSTER = '{cluster=~"$cluster"}'
YES_IS_BAD = (("0", "no", "green"), ("1", "yes", "red"))
