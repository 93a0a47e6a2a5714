"""Back-test: the alerts that the job would send for recorded observations, with any configuration.

The rows are applied by the same `ClusterMonitor` as in the job's step, so the alerts and their times are the job's.
Sinks, routes and silences are not applied.
"""

from collections.abc import Callable, Iterable, Iterator

from connectors.observations.observation import Observation
from rules.alert import Alert
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings

ClusterSettingsOf = Callable[[str], ClusterSettings | None]
"""Returns the settings of a cluster by its name; None: its rows are left out."""


def back_test(rows: Iterable[Observation], settings_of: ClusterSettingsOf) -> Iterator[Alert]:
    """Yields the alerts in the order in which the job would send them.

    Args:
        rows: recorded observations of any clusters, ordered by sequence.
        settings_of: the settings of each cluster.
    """
    monitors: dict[str, ClusterMonitor | None] = {}
    for row in rows:
        if row.cluster not in monitors:
            settings = settings_of(row.cluster)
            monitors[row.cluster] = None if settings is None else ClusterMonitor(settings)
        monitor = monitors[row.cluster]
        if monitor is not None:
            yield from monitor.apply((row,)).alerts
