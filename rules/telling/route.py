"""A Route: which alerts are meant for a sink."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from rules.alert import Alert
from rules.finding import Severity
from rules.telling.notice import WEIGHT

OWN = "kraftwatch"
"""The name that stands for the job itself where an alert names its cluster: about no cluster, and for everybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """By severity and by the name of the cluster."""

    min_severity: Severity = Severity.INFO
    clusters: tuple[str, ...] = ("*",)
    """Patterns (`*`, `?`, `[abc]`); one of them matches."""

    def takes(self, alert: Alert) -> bool:
        """Whether this transition by itself is meant for the sink."""
        named = alert.cluster == OWN or any(fnmatchcase(alert.cluster, pattern) for pattern in self.clusters)
        return named and WEIGHT[alert.severity] >= WEIGHT[self.min_severity]

    def meant(self, life: Sequence[Alert], *, begun: bool) -> bool:
        """Whether an alert from firing to resolved is.

        Args:
            life: its transitions that the sink was told, or is still to be told.
            begun: the sink was told one: whatever comes of that it is told too.
        """
        return begun or any(self.takes(alert) for alert in life)
