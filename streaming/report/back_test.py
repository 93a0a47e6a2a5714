"""Back-test: the alerts that the job would send for recorded observations, with any configuration.

The rows go through the same `ClusterMonitor`, with the same containment, as in the job's step, so the alerts and their
times are the job's. Sinks, routes and silences are not applied.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from connectors.observation import Observation
from rules.alert import Alert
from rules.finding import Thresholds
from rules.model.monitoring import PLAINTEXT, Access, Vantage
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.contained_replay import observe_contained
from streaming.replay.decoded_row import DecodedRow, decoded_row

_ROWS_TOGETHER = 256
"""Rows between two stored forms of a cluster's state, from which a row that raises is skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackTestCluster:
    """One cluster as a configuration describes it."""

    thresholds: Mapping[str, Thresholds]
    """By rule id."""
    cluster_id: str | None = None
    bootstrap: tuple[str, ...] = ()
    vantage: Vantage = Vantage.INSIDE
    access: Access = PLAINTEXT


ClusterSettingsOf = Callable[[str], BackTestCluster | None]
"""Returns the settings of a cluster by its name; None: its rows are left out."""


@dataclass(slots=True, kw_only=True)
class _Replayed:
    """One cluster: its settings, its monitor with its stored form, and rows that were not applied yet."""

    name: str
    settings: BackTestCluster
    monitor: ClusterMonitor
    blob: bytes | None = None
    waiting: list[DecodedRow] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, settings: BackTestCluster) -> "_Replayed":
        return cls(name=name, settings=settings, monitor=_monitor(name, settings, None))

    def add(self, row: Observation) -> tuple[Alert, ...]:
        """Takes the next row; returns the alerts of rows that are applied now."""
        self.waiting.append(decoded_row(row))
        return self.flush() if len(self.waiting) >= _ROWS_TOGETHER else ()

    def flush(self) -> tuple[Alert, ...]:
        """Applies the waiting rows; returns their alerts."""
        rows, self.waiting = self.waiting, []
        if not rows:
            return ()
        result = observe_contained(self.monitor, self.blob, rows, lambda blob: _monitor(self.name, self.settings, blob))
        self.monitor, self.blob = result.monitor, result.blob
        return result.alerts


def back_test(rows: Iterable[Observation], settings_of: ClusterSettingsOf) -> Iterator[Alert]:
    """Yields the alerts in the order in which the job would send them, cluster by cluster within some rows.

    Args:
        rows: recorded observations of any clusters, ordered by sequence.
        settings_of: the settings of each cluster.
    """
    replayed: dict[str, _Replayed | None] = {}
    for row in rows:
        if row.cluster not in replayed:
            settings = settings_of(row.cluster)
            replayed[row.cluster] = None if settings is None else _Replayed.of(row.cluster, settings)
        one = replayed[row.cluster]
        if one is not None:
            yield from one.add(row)
    yield from (alert for one in replayed.values() if one is not None for alert in one.flush())


def _monitor(name: str, settings: BackTestCluster, blob: bytes | None) -> ClusterMonitor:
    return ClusterMonitor.from_bytes(
        blob,
        cluster=name,
        cluster_id=settings.cluster_id,
        bootstrap=settings.bootstrap,
        vantage=settings.vantage,
        access=settings.access,
        thresholds=settings.thresholds,
    )
