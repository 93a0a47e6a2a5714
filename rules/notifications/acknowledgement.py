"""Acknowledgement: a person works on one alert, and sinks for people are not reminded of it meanwhile."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from rules.alert import Alert, AlertId
from rules.finding import Severity
from rules.formatting import utc_text, visible
from rules.model.identifiers import Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """Holds for one alert from firing to resolved: an alert that fires again later is another one."""

    fingerprint: str
    started_at_ms: Millis
    """With the fingerprint, the alert (`Alert.alert_id`)."""
    severity: Severity
    """That of the alert when it was acknowledged: a higher one ends the acknowledgement."""
    by: str
    """The person, or the service in which the person acknowledged: `PagerDuty (Ana)`."""
    at_ms: Millis
    until_ms: Millis | None = None
    """Its end; None: it holds until the alert resolves."""
    comment: str = ""

    @property
    def alert_id(self) -> AlertId:
        """The alert."""
        return self.fingerprint, self.started_at_ms

    def active(self, now_ms: Millis) -> bool:
        """Returns whether the acknowledgement has not ended at `now_ms`."""
        return self.until_ms is None or now_ms < self.until_ms

    def matches(self, alert: Alert) -> bool:
        """Returns whether the acknowledgement is of this alert."""
        return self.alert_id == alert.alert_id and alert.severity.rank <= self.severity.rank

    @property
    def who(self) -> str:
        """By whom, and until when: `by Ana until 2026-11-20 04:00:00 UTC`."""
        return by_until(self.by, self.until_ms)


def by_until(by: str, until_ms: Millis | None) -> str:
    """Returns by whom, and until when."""
    return f"by {visible(by)}" if until_ms is None else f"by {visible(by)} until {utc_text(until_ms)}"


def digest(acknowledgements: Iterable[Acknowledgement]) -> str:
    """Returns what identifies these acknowledgements, 16 hex digits; an empty text for none."""
    known = sorted(
        (*acknowledgement.alert_id, acknowledgement.by, acknowledgement.at_ms, acknowledgement.until_ms or 0)
        for acknowledgement in acknowledgements
    )
    return hashlib.sha256(repr(known).encode("utf-8", "backslashreplace")).hexdigest()[:16] if known else ""
