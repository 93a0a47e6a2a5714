"""Silence: suppresses notifications to people for a limited time. Sinks that keep a record are not affected."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from rules.alert import Alert
from rules.model.identifiers import Millis


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
