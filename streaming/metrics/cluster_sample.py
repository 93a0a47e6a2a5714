"""One cluster's status at a scrape, and functions that read metric values from it.

Rows of DescribeQuorum are exported while it is answered. What the log holds is exported as it was last read.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass
from typing import TypeAlias

from streaming.metrics.metric_spec import Values
from streaming.metrics.rates import Rates, node_of
from streaming.status.cluster_status import ClusterStatus, StatusSource
from streaming.status.voter_types import ReplicaRole, ReplicaStatus

POLLED_MS = 10_000
"""An older poll does not describe the present (as `poll_age` of the rules)."""
NODE = ("node_id", "directory_id")
REPLICA = (*NODE, "role")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSample:
    """One cluster's newest status."""

    status: ClusterStatus
    rates: Rates

    @property
    def polled(self) -> bool:
        """Whether DescribeQuorum is answered now."""
        described_at_ms = self.status.described_at_ms
        return described_at_ms is not None and self.status.now_ms - described_at_ms <= POLLED_MS

    @property
    def live(self) -> bool:
        """Whether a leader answers now."""
        return self.status.source is StatusSource.LIVE


Read: TypeAlias = Callable[[ClusterSample], Values]


def value(of: Callable[[ClusterStatus], float | int | bool | None]) -> Read:
    """Reads one number of the status."""
    return lambda sample: of(sample.status)


def length_while_polled(of: Callable[[ClusterStatus], Sized]) -> Read:
    """Reads the number of items in a field of the newest poll, while polls are answered."""
    return lambda sample: len(of(sample.status)) if sample.polled else None


def of_replicas(of: Callable[[ReplicaStatus], int | None], *, divisor: float = 1) -> Read:
    """Reads a number of each row of DescribeQuorum, divided by `divisor`, while polls are answered."""

    def read(sample: ClusterSample) -> Values:
        rows = sample.status.replicas if sample.polled else ()
        return {(*node_of(row), role(row)): number / divisor for row in rows if (number := of(row)) is not None}

    return read


def counted(labels: Callable[[ClusterStatus], Iterable[tuple[str, ...]]]) -> Read:
    """Reads how often each combination of label values occurs."""
    return lambda sample: Counter(labels(sample.status))


def role(row: ReplicaStatus) -> str:
    """Returns `voter` or `observer`: an election changes neither."""
    return "observer" if row.status is ReplicaRole.OBSERVER else "voter"
