"""One cluster as /metrics shows it, and the ways to read values from it.

What a leader says (rows of DescribeQuorum) is told while it answers; what the log said stays true until it says
otherwise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from streaming.metrics.metric import Values
from streaming.metrics.rates import Pace, node_of

POLLED_MS = 10_000
"""A poll that is older is not what is now (as `poll_age` of the rules)."""
NODE = ("node_id", "directory_id")
REPLICA = (*NODE, "role")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One cluster as it was last shown."""

    portrait: Mapping[str, Any]
    """Of `streaming.status.cluster_status`."""
    pace: Pace

    @property
    def polled(self) -> bool:
        """Whether DescribeQuorum is being answered now."""
        described_at_ms = self.portrait["described_at_ms"]
        return described_at_ms is not None and self.portrait["now_ms"] - described_at_ms <= POLLED_MS

    @property
    def live(self) -> bool:
        """Whether a leader answers anything now."""
        return bool(self.portrait["source"] == "live")


Read: TypeAlias = Callable[[Shown], Values]


def field(name: str) -> Read:
    """A field as it is."""

    def read(shown: Shown) -> Values:
        value: Values = shown.portrait[name]
        return value

    return read


def length(name: str) -> Read:
    """How many there are in a field of the newest poll, while polls are answered."""
    return lambda shown: len(shown.portrait[name]) if shown.polled else None


def of_replicas(name: str, *, per: float = 1) -> Read:
    """A field of each row of DescribeQuorum, divided by `per`, while polls are answered."""

    def read(shown: Shown) -> Values:
        rows = shown.portrait["replicas"] if shown.polled else ()
        return {(*node_of(row), role(row)): row[name] / per for row in rows if row[name] is not None}

    return read


def counted(name: str, *labels: str) -> Read:
    """How many items of a list there are by some of their fields."""

    def read(shown: Shown) -> Values:
        counts: dict[tuple[str, ...], int] = {}
        for one in shown.portrait[name]:
            key = tuple(str(one[label]) for label in labels)
            counts[key] = counts.get(key, 0) + 1
        return counts

    return read


def role(row: Mapping[str, Any]) -> str:
    """`voter` or `observer`: an election changes neither."""
    return "observer" if row["status"] == "Observer" else "voter"
