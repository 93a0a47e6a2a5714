"""When a cluster's status is due: after a changed evaluation at most once a second, otherwise every few seconds."""

from typing import NamedTuple

from rules.finding import Evaluation
from rules.model.identifiers import Millis
from streaming.replay.cluster_monitor import ClusterMonitor

CHANGED_STATUS_MS = 1_000
"""A status follows the previous one after this long at the earliest; with an alert or a quarantined row at once."""
QUIET_STATUS_MS = 5_000
"""The status of a cluster in which only offsets and times moved follows after this long at the latest."""
REFRESH_MS_PER_CLUSTER = 50
"""By how much more clusters raise that time from one second: one of few is shown every second."""


def refresh_ms(clusters: int) -> int:
    """Returns how often the status of a quiet cluster is due, in a job with so many clusters."""
    return min(max(CHANGED_STATUS_MS, clusters * REFRESH_MS_PER_CLUSTER), QUIET_STATUS_MS)


class RenderedStatus(NamedTuple):
    """The newest status of a cluster that this worker yielded."""

    evaluation: Evaluation | None
    now_ms: Millis

    def is_older(self, monitor: ClusterMonitor) -> bool:
        """Returns whether rows were applied since, after which no status was due."""
        return self.now_ms < monitor.machine.now_ms

    def is_due(self, monitor: ClusterMonitor, refresh_ms: int) -> bool:
        """Returns whether the next status is due: after a second if the evaluation changed, else after `refresh_ms`."""
        changed = monitor.newest_evaluation is not self.evaluation
        return monitor.machine.now_ms - self.now_ms >= (CHANGED_STATUS_MS if changed else refresh_ms)
