"""Which alerts a sink gets: a Route selects them, a Silence holds them back for a limited time.

What holds alerts back, a silence or an acknowledgement, is a `Hold`.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias

from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.history import NodeKind
from rules.model.identifiers import Millis, NodeId, selects
from rules.model.job_state import JOB_CLUSTER_ID
from rules.model.subject import Subject
from rules.notifications.acknowledgement import Acknowledgement
from rules.notifications.notification import AlertHistory

RESTART_ID = "restart-"
"""With which the id of a silence begins that `safe-to-restart --announce` made."""
_RESTARTS = "node-restarting"
"""The rule of a warning that a silence holds back which announces restarts."""
WINDOW_ID = "maintenance-"
"""With which the id of a maintenance window's silence begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Matches alerts by patterns (`*`, `?`, `[abc]`) from its start to its end. It always has an end."""

    id: str
    cluster: str = "*"
    """The cluster's name in the configuration."""
    rule: str = "*"
    subject: str = "*"
    severity: str = "*"
    starts_at_ms: Millis
    ends_at_ms: Millis
    author: str
    comment: str

    def active(self, now_ms: Millis) -> bool:
        """Returns whether the silence is in force at `now_ms`."""
        return self.starts_at_ms <= now_ms < self.ends_at_ms

    def announces_restart(self, cluster: str, node: NodeId) -> bool:
        """Returns whether a restart of this node, in the time of the silence, was announced by it."""
        subjects = (str(Subject(kind, node)) for kind in NodeKind)
        return (
            fnmatchcase(cluster, self.cluster)
            and fnmatchcase(_RESTARTS, self.rule)
            and fnmatchcase(Severity.WARNING, self.severity)
            and any(fnmatchcase(subject, self.subject) for subject in subjects)
        )

    @property
    def can_end(self) -> bool:
        """Whether people can end it before its end: not that of a maintenance window."""
        return not self.id.startswith(WINDOW_ID)

    def matches(self, alert: Alert) -> bool:
        """Returns whether the silence applies to this alert."""
        return (
            fnmatchcase(alert.cluster, self.cluster)
            and fnmatchcase(alert.rule, self.rule)
            and fnmatchcase(alert.subject, self.subject)
            and fnmatchcase(alert.severity, self.severity)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceOfService(Silence):
    """A silence in the service of a sink: it applies to the sinks that do not silence by themselves, and ends there."""

    @property
    def can_end(self) -> bool:
        """As `Silence.can_end`."""
        return False


Hold: TypeAlias = Silence | Acknowledgement
LONGEST_MS = Millis(366 * 86_400_000)
"""The longest time for which people hold alerts back."""
LONGEST_NAME, LONGEST_COMMENT = 200, 1_000
"""Of who holds alerts back, and why: characters."""
_NO_NAME = "\0" * 16
"""Only a pattern that matches everything matches it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Selects alerts by severity, by cluster name and by rule."""

    min_severity: Severity = Severity.INFO
    clusters: tuple[str, ...] = ("*",)
    """Patterns that must select the cluster's name."""
    rules: tuple[str, ...] = ("*",)
    """Patterns that must select the rule's id."""

    def matches(self, alert: Alert) -> bool:
        """Returns whether this single transition matches the route."""
        if alert.severity.rank < self.min_severity.rank:
            return False
        if alert.cluster_id == JOB_CLUSTER_ID:
            clusters = alert.facts.clusters
            if not clusters:
                return True
            return any(selects(self.clusters, name) for name in clusters) and selects(self.rules, alert.rule)
        return selects(self.clusters, alert.cluster) and selects(self.rules, alert.rule)

    def matches_history(self, history: AlertHistory) -> bool:
        """Returns whether the sink receives this alert.

        If the sink was notified of the alert once, it also receives every later transition, whatever the severity. It
        does not receive the end of an alert of which it gets no beginning, unless it may have that: it did not match
        when it was pending.
        """
        begun = (alert for alert in history.pending if alert.state is AlertState.FIRING)
        may_be_open = history.maybe_notified and history.resolved
        return history.notified or may_be_open or any(map(self.matches, begun))


def matches_any_name(pattern: str) -> bool:
    """Returns whether a pattern excludes no name: `*`, and also `**` or `?*`."""
    return fnmatchcase(_NO_NAME, pattern)
