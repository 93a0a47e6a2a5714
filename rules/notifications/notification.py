"""A Notice: what a sink is told at once, about one incident.

An incident is what one person has to do with at a time: see `rules.notifications.incident`. A sink that keeps a record
(a file, a topic) is told each transition as an incident of its own.
"""

from dataclasses import dataclass
from enum import StrEnum

from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis

WEIGHT = {Severity.INFO: 0, Severity.WARNING: 1, Severity.CRITICAL: 2}
"""The heavier, the worse."""


class NotifyReason(StrEnum):
    """Why a sink is told now."""

    FIRING = "firing"
    """The incident began."""
    CHANGED = "changed"
    """It goes on: an alert joined it, one of its alerts resolved, or a severity changed."""
    RESOLVED = "resolved"
    """All its alerts are over."""
    REPEATED = "repeated"
    """Nothing is new, and it has stood for another repeat interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One message. Telling the same notice again must do no harm: `incident` is the key sinks update by."""

    incident: str
    """Identity over the incident's whole life, 16 hex digits: for a record's sink, the alert's fingerprint."""
    reason: NotifyReason
    alerts: tuple[Alert, ...]
    """The newest word on each alert of the incident, never empty, its root cause first.

    What resolved stays until the incident is over.
    """
    news: tuple[Alert, ...]
    """The transitions that this notice tells, oldest first; none when it is repeated."""
    known: bool = True
    """The sink was told of it before. One that is over and was not came and went while it could not be told."""

    @property
    def root(self) -> Alert:
        """The root cause."""
        return self.alerts[0]

    @property
    def firing(self) -> tuple[Alert, ...]:
        """Those that are not over."""
        return tuple(alert for alert in self.alerts if alert.state is AlertState.FIRING)

    @property
    def state(self) -> AlertState:
        """Firing as long as one of its alerts is."""
        return AlertState.FIRING if self.firing else AlertState.RESOLVED

    @property
    def severity(self) -> Severity:
        """The worst of those that are firing; once it is over, of all."""
        return max((alert.severity for alert in self.firing or self.alerts), key=WEIGHT.__getitem__)

    @property
    def started_at_ms(self) -> Millis:
        """When the first of its alerts began."""
        return min(alert.started_at_ms for alert in self.alerts)


def each(alert: Alert) -> Notice:
    """A transition told by itself: an incident of one alert."""
    reason = NotifyReason.FIRING if alert.state is AlertState.FIRING else NotifyReason.RESOLVED
    return Notice(incident=alert.fingerprint, reason=reason, alerts=(alert,), news=(alert,))
