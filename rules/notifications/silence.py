"""Silence: suppresses notifications to people for a limited time. Sinks that keep a record are not affected."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.notifications.route import JOB_CLUSTER_ID

_FOREVER_MS = Millis(2**62)


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

    def matches(self, alert: Alert) -> bool:
        """Returns whether the silence applies to this alert."""
        return (
            fnmatchcase(alert.cluster, self.cluster)
            and fnmatchcase(alert.rule, self.rule)
            and fnmatchcase(alert.subject, self.subject)
            and fnmatchcase(alert.severity, self.severity)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyHold(Silence):
    """A standby job's silence of all alerts but those about itself, while the first job notifies.

    An alert that resolves meanwhile is discarded only once the first job is known to have run later than that: if it
    had stopped by then, its recipients still have to be notified.
    """

    covered_until_ms: Millis
    """The first job has notified of all transitions up to this time."""

    def matches(self, alert: Alert) -> bool:
        """Returns whether the first job notifies of this alert."""
        return alert.cluster_id != JOB_CLUSTER_ID

    def may_discard(self, alert: Alert) -> bool:
        """Returns whether the first job has notified of this transition."""
        return not self.matches(alert) or alert.observed_at_ms <= self.covered_until_ms


def standby_hold(covered_until_ms: Millis) -> StandbyHold:
    """Returns the hold while the first job runs."""
    return StandbyHold(
        id="standby",
        starts_at_ms=Millis(0),
        ends_at_ms=_FOREVER_MS,
        author="standby",
        comment="the first job notifies",
        covered_until_ms=covered_until_ms,
    )
