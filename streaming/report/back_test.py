"""Back-test: the alerts that the job would send for recorded observations, with any configuration.

The rows go through the same `ClusterMonitor`, with the same containment, as in the job's step, so the alerts and their
times are the job's. Sinks, routes and silences are not applied.
"""

from collections.abc import Callable, Iterable, Iterator

from connectors.observations.observation import Observation
from rules.alert import Alert
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.contained_replay import observe_contained
from streaming.replay.decoded_row import DecodedRow, decoded_row

_ROWS_TOGETHER = 256
"""Rows between two stored forms of a cluster's state, from which a row that raises is skipped."""

ClusterSettingsOf = Callable[[str], ClusterSettings | None]
"""Returns the settings of a cluster by its name; None: its rows are left out."""


class _Replayed:
    """One cluster: its monitor with its stored form, and rows that were not applied yet."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._monitor = ClusterMonitor(settings)
        self._blob: bytes | None = None
        self._waiting: list[DecodedRow] = []

    def add(self, row: Observation) -> tuple[Alert, ...]:
        """Takes the next row; returns the alerts of rows that are applied now."""
        self._waiting.append(decoded_row(row))
        return self.flush() if len(self._waiting) >= _ROWS_TOGETHER else ()

    def flush(self) -> tuple[Alert, ...]:
        """Applies the waiting rows; returns their alerts."""
        rows, self._waiting = self._waiting, []
        if not rows:
            return ()
        result = observe_contained(
            self._monitor, self._blob, rows, lambda blob: ClusterMonitor.restored(blob, self._settings)
        )
        self._monitor, self._blob = result.monitor, result.blob
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
            replayed[row.cluster] = None if settings is None else _Replayed(settings)
        one = replayed[row.cluster]
        if one is not None:
            yield from one.add(row)
    yield from (alert for one in replayed.values() if one is not None for alert in one.flush())
