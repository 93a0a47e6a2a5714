"""Route: selects the alerts that are sent to a sink."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from rules.alert import Alert
from rules.finding import Severity
from rules.notifications.alert_history import AlertHistory

JOB_CLUSTER_ID = "kraftwatch"
"""The cluster id of alerts about the job itself. They match every cluster pattern. No Kafka cluster has this id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Selects alerts by severity and by cluster name."""

    min_severity: Severity = Severity.INFO
    clusters: tuple[str, ...] = ("*",)
    """Patterns (`*`, `?`, `[abc]`); one of them must match the cluster's name."""

    def matches(self, alert: Alert) -> bool:
        """Returns whether this single transition matches the route."""
        cluster_matches = alert.cluster_id == JOB_CLUSTER_ID or any(
            fnmatchcase(alert.cluster, pattern) for pattern in self.clusters
        )
        return cluster_matches and alert.severity.rank >= self.min_severity.rank

    def matches_history(self, history: AlertHistory) -> bool:
        """Returns whether the sink receives this alert.

        If the sink was notified of the alert once, it also receives every later transition, whatever the severity.
        """
        return history.notified or any(self.matches(alert) for alert in history.pending)
