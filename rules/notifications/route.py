"""A Route: which alerts are meant for a sink."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from rules.alert import Alert
from rules.finding import Severity
from rules.notifications.alert_history import Life
from rules.notifications.notification import WEIGHT

OWN = "kraftwatch"
"""The cluster id of what is about the job itself: of no cluster, and for everybody. No cluster of Kafka has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """By severity and by the name of the cluster."""

    min_severity: Severity = Severity.INFO
    clusters: tuple[str, ...] = ("*",)
    """Patterns (`*`, `?`, `[abc]`); one of them matches."""

    def takes(self, alert: Alert) -> bool:
        """Whether this transition by itself is meant for the sink."""
        named = alert.cluster_id == OWN or any(fnmatchcase(alert.cluster, pattern) for pattern in self.clusters)
        return named and WEIGHT[alert.severity] >= WEIGHT[self.min_severity]

    def meant(self, life: Life) -> bool:
        """Whether an alert is: what the sink was told once, it is told the end of, however mild it became."""
        return life.begun or any(self.takes(alert) for alert in life.untold)
