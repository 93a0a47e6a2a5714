"""Notification: one message to one sink about one incident; and AlertHistory, the records from which it is planned.

An incident is a group of alerts with one root cause: see `rules.notifications.incident`. A sink that keeps a record
(a file, a topic) gets one notification for each transition, as an incident of one alert.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rules.alert import Alert, AlertId, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.acknowledgement import Acknowledgement, digest


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionStatus:
    """One recorded transition of an alert and its delivery status for one sink."""

    alert: Alert
    delivered: bool
    """The sink accepted the transition."""
    maybe_delivered: bool = False
    """The transition was sent, but the sink's acceptance was not confirmed: the sink may have it."""
    escalations: int = 0
    """How often the incident had escalated, this transition included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notified:
    """The last notification of one incident that a sink was sent."""

    at_ms: Millis
    acknowledged: str = ""
    """The acknowledgements that the sink knows of (`acknowledgement.digest`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertHistory:
    """The transitions of one alert, oldest first. Never empty; discarded transitions are left out."""

    transitions: tuple[TransitionStatus, ...]

    @property
    def newest(self) -> Alert:
        """The newest transition."""
        return self.transitions[-1].alert

    @property
    def resolved(self) -> bool:
        """Whether the newest transition is `resolved`."""
        return self.newest.state is AlertState.RESOLVED

    @property
    def notified(self) -> bool:
        """Whether at least one transition was delivered to the sink."""
        return any(transition.delivered for transition in self.transitions)

    @property
    def maybe_notified(self) -> bool:
        """Whether the sink has a transition, or may have one: it was sent, and its acceptance was not confirmed."""
        return self.notified or any(transition.maybe_delivered for transition in self.transitions)

    @property
    def delivered(self) -> tuple[Alert, ...]:
        """The transitions that were delivered to the sink."""
        return tuple(transition.alert for transition in self.transitions if transition.delivered)

    @property
    def pending(self) -> tuple[Alert, ...]:
        """The transitions that were not delivered yet."""
        return tuple(transition.alert for transition in self.transitions if not transition.delivered)


def alert_histories(transitions: Iterable[TransitionStatus]) -> Sequence[AlertHistory]:
    """Groups transitions (oldest first) by fingerprint and start time, in the order of the first transition."""
    by_alert: dict[AlertId, list[TransitionStatus]] = {}
    for transition in transitions:
        by_alert.setdefault(transition.alert.alert_id, []).append(transition)
    return [AlertHistory(transitions=tuple(group)) for group in by_alert.values()]


class NotifyReason(StrEnum):
    """Why a notification is sent."""

    FIRING = "firing"
    """The incident is new to the sink."""
    CHANGED = "changed"
    """The incident is still open: an alert joined it, one of its alerts resolved, or a severity changed."""
    RESOLVED = "resolved"
    """All alerts of the incident are resolved."""
    REPEATED = "repeated"
    """Nothing changed, and another repeat interval has passed while the incident is open."""
    ACKNOWLEDGED = "acknowledged"
    """An acknowledgement of the open incident began or ended."""
    UNSILENCED = "unsilenced"
    """A silence of the open incident ended, and an alert of it that the sink was notified of fires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedSilence:
    """A silence of an open incident that has ended."""

    by: str
    """Who made it, or the maintenance window."""
    at_ms: Millis
    """When it ended, by itself or because a person ended it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One message. Sending it twice must have no side effect: sinks update by the key `incident`."""

    incident: str
    """The id of the incident, 16 hex digits; for a sink that keeps a record, the alert's fingerprint."""
    reason: NotifyReason
    alerts: tuple[Alert, ...]
    """The newest transition of each alert of the incident, the worst that fires first, of several the root cause. Never
    empty.

    A resolved alert is listed until the whole incident is resolved.
    """
    new_transitions: tuple[Alert, ...]
    """The transitions that this notification reports, oldest first; empty for a repeated notification."""
    previously_notified: bool = True
    """Whether the sink was notified of this incident before.

    False for a resolved incident means: it fired and resolved while the sink could not be reached, or in a backlog.
    """
    worse: bool = False
    """Whether an open incident got worse, another alert as severe joined it, or other advice holds: people must notice
    it."""
    escalations: int = 0
    """How often the incident has escalated (`rules.notifications.incident`): each is a new page."""
    escalations_before: int = 0
    """What `escalations` may have been when the sink was notified last: those pages are superseded."""
    began_ms: Millis | None = None
    """When its first alert began, also if that one has ended and fires again; None: that is one of `alerts`."""
    repeats_ms: Millis | None = None
    """Of a repeated notification: when the sink was notified before."""
    acknowledgements: tuple[Acknowledgement, ...] = ()
    """Those of its firing alerts."""
    ended_silence: EndedSilence | None = None
    """The newest silence of its firing alerts that has ended since the sink was notified last; of an open incident."""
    was: Alert | None = None
    """The worst that the open incident was, if that is over and the sink was not notified of it."""

    @property
    def id(self) -> str:
        """32 hex digits: the same for the same new transitions, also if they are sent again.

        Each repetition has its own, also if it is sent again, and each change of the acknowledgements.
        """
        transitions = [tuple(map(str, alert.key)) for alert in self.new_transitions]
        about: object = transitions or self.repeats_ms
        if self.reason is NotifyReason.ACKNOWLEDGED:
            about = (transitions, self.notified_at(Millis(0)).acknowledged)
        elif self.reason is NotifyReason.UNSILENCED and self.ended_silence is not None:
            about = (transitions, self.ended_silence.at_ms)
        text = repr([self.incident, self.reason.value, about])
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]

    @property
    def root(self) -> Alert:
        """The worst of the firing alerts, of several the root cause; of a resolved incident, the root cause."""
        return self.alerts[0]

    @property
    def firing(self) -> tuple[Alert, ...]:
        """The alerts that are firing."""
        return tuple(alert for alert in self.alerts if alert.state is AlertState.FIRING)

    @property
    def state(self) -> AlertState:
        """Firing while at least one alert is firing."""
        return AlertState.FIRING if self.firing else AlertState.RESOLVED

    @property
    def acknowledged(self) -> bool:
        """Whether each firing alert is acknowledged."""
        known = {acknowledgement.fingerprint for acknowledgement in self.acknowledgements}
        return bool(self.firing) and all(alert.fingerprint in known for alert in self.firing)

    def notified_at(self, now_ms: Millis) -> Notified:
        """Returns what is known of the sink once it was sent this notification."""
        return Notified(at_ms=now_ms, acknowledged=digest(self.acknowledgements))

    @property
    def severity(self) -> Severity:
        """The worst severity of the firing alerts; of a resolved incident, of all alerts."""
        return max((alert.severity for alert in self.firing or self.alerts), key=lambda severity: severity.rank)

    @property
    def summary(self) -> str:
        """The conclusion: that of the worst alert that fires; for a new sink also what was worse before.

        Of a resolved incident, what is true since its last alert resolved: the text of one that resolved earlier
        describes the quorum of that moment.
        """
        now, was = self._described.summary, self.was
        if was is None:
            return now
        return f"{now} Before, the incident was {was.severity} ({was.rule}): {was.summary}"

    @property
    def late_ms(self) -> Millis | None:
        """How late the job read what the summary says; None if it was not late."""
        return self._described.late_ms

    @property
    def _described(self) -> Alert:
        return self.root if self.firing else max(self.alerts, key=lambda alert: alert.observed_at_ms)

    @property
    def started_at_ms(self) -> Millis:
        """The start of the first alert."""
        return min(alert.started_at_ms for alert in self.alerts) if self.began_ms is None else self.began_ms

    @property
    def lasted_ms(self) -> Millis:
        """From the start of the first alert to the newest transition."""
        return Millis(max(alert.observed_at_ms for alert in self.alerts) - self.started_at_ms)


def single_alert_notification(alert: Alert) -> Notification:
    """Returns the notification of one transition: an incident of one alert."""
    reason = NotifyReason.FIRING if alert.state is AlertState.FIRING else NotifyReason.RESOLVED
    return Notification(incident=alert.fingerprint, reason=reason, alerts=(alert,), new_transitions=(alert,))
