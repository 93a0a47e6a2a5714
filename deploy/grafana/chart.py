"""A chart: its title, its Prometheus queries and its form."""

from dataclasses import dataclass
from enum import Enum

THIRD, HALF, WHOLE = 8, 12, 24


class ChartForm(Enum):
    """The form of a chart."""

    LINES = "lines"
    STATES = "states"
    """A bar for each series that changes colour with its value."""
    NUMBER = "number"
    """The newest value, large."""
    TABLE = "table"
    """A row for each cluster, a column for each query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartQuery:
    """One Prometheus query."""

    expr: str
    legend: str
    """The name of its series, with labels in `{{ }}`; in a table the name of the column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One panel."""

    title: str
    description: str
    """What the chart shows and what to do about it."""
    queries: tuple[ChartQuery, ...]
    form: ChartForm = ChartForm.LINES
    width: int = THIRD
    unit: str = "short"
    """Grafana's name of the unit: short, s, bytes, percentunit."""
    steps: tuple[tuple[float | None, str], ...] = ()
    """Colours, each from a value on; the first one has no value."""
    values: tuple[tuple[str, str, str], ...] = ()
    """Value, text and colour."""


OK_BELOW = ((None, "green"), (1, "red"))
OF_CLUSTER = '{cluster=~"$cluster"}'
YES_IS_BAD = (("0", "no", "green"), ("1", "yes", "red"))
