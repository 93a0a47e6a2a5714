"""A Silence: what people need not be told for a while, who said so, and why. Records are written all the same."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from rules.alert import Alert
from rules.model.identifiers import Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Matches alerts by patterns (`*`, `?`, `[abc]`) for a span of time. It always ends."""

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
        """Whether it holds now."""
        return self.starts_at_ms <= now_ms < self.ends_at_ms

    def covers(self, alert: Alert) -> bool:
        """Whether it speaks of this alert."""
        return (
            fnmatchcase(alert.cluster, self.cluster)
            and fnmatchcase(alert.rule, self.rule)
            and fnmatchcase(alert.subject, self.subject)
            and fnmatchcase(alert.severity, self.severity)
        )
