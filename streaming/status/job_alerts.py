"""The alerts of a job in a status: which fire, and by whom they are acknowledged or silenced.

Only what reads the job's alerts has them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rules.alert import Alert
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.acknowledgement import Acknowledgement, by_until
from rules.notifications.route import Silence


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgedAlert:
    """A firing alert on which a person works."""

    rule: str
    """Rule id."""
    subject: str
    """What the alert is about."""
    by: str
    """The person, or the service in which the person acknowledged it."""
    at_ms: Millis
    """When it was acknowledged."""
    until_ms: Millis | None
    """When the acknowledgement ends; null: when the alert resolves."""
    comment: str
    """The person's note."""

    @classmethod
    def of(cls, alert: Alert, acknowledgement: Acknowledgement) -> "AcknowledgedAlert":
        """Returns an alert with its acknowledgement."""
        return cls(
            rule=alert.rule,
            subject=alert.subject,
            by=acknowledgement.by,
            at_ms=acknowledgement.at_ms,
            until_ms=acknowledgement.until_ms,
            comment=acknowledgement.comment,
        )

    @property
    def who(self) -> str:
        """By whom, and until when."""
        return by_until(self.by, self.until_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSilence:
    """The silence of a firing alert."""

    id: str
    """With which `kraftwatch silence end` ends it, unless it is a maintenance window or in the service of a sink."""
    by: str
    """Who silenced it."""
    until_ms: Millis
    """When it ends."""
    comment: str
    """The reason."""

    @property
    def who(self) -> str:
        """By whom, and until when."""
        return by_until(self.by, self.until_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringAlert:
    """An alert of the job that fires."""

    rule: str
    """Rule id."""
    subject: str
    """What the alert is about."""
    severity: Severity
    """critical, warning or info."""
    started_at_ms: Millis
    """When its condition was first found, by the monitor's clock."""
    silence: AlertSilence | None
    """Why sinks for people are not notified of it; null: no silence is active."""

    @classmethod
    def of(cls, alert: Alert, silences: Iterable[Silence]) -> "FiringAlert":
        """Returns an alert with the first of the active silences that applies to it."""
        one = next((silence for silence in silences if silence.matches(alert)), None)
        return cls(
            rule=alert.rule,
            subject=alert.subject,
            severity=alert.severity,
            started_at_ms=alert.started_at_ms,
            silence=None
            if one is None
            else AlertSilence(id=one.id, by=one.author, until_ms=one.ends_at_ms, comment=one.comment),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAlerts:
    """What a job knows of its alerts, of all clusters."""

    firing: Sequence[Alert]
    acknowledgements: Sequence[Acknowledgement]
    silences: Sequence[Silence]

    def of_cluster(self, cluster: str, now_ms: Millis) -> tuple[tuple[AcknowledgedAlert, ...], tuple[FiringAlert, ...]]:
        """Returns the acknowledged and the firing alerts of a cluster, by what is in force at a time."""
        acknowledged = {
            acknowledgement.alert_id: acknowledgement
            for acknowledgement in self.acknowledgements
            if acknowledgement.active(now_ms)
        }
        silences = [silence for silence in self.silences if silence.active(now_ms)]
        firing = [alert for alert in self.firing if alert.cluster == cluster]
        known = [(alert, acknowledged.get(alert.alert_id)) for alert in firing]
        return (
            tuple(
                AcknowledgedAlert.of(alert, acknowledgement)
                for alert, acknowledgement in known
                if acknowledgement is not None
            ),
            tuple(FiringAlert.of(alert, silences) for alert in firing),
        )
