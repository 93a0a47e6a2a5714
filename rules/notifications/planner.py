"""The notification planner decides which notifications one sink for people gets now.

Pure: the same records and the same `now` give the same plan.

- A sink is notified immediately when an incident begins, gets worse or is resolved. Worse means: a higher severity, or
  an alert of another rule that is at least as severe as what the sink was notified of. Other changes (another alert of
  the same rule, one of several resolved, the severity decreased, another conclusion or advice) are collected for an
  interval from the first of them: an incident that recovers step by step is one notification. Other advice at the worst
  severity is noticeable, and never a new page.
- A silenced alert is held back: it is sent if it is still firing when the silence ends, and discarded if it resolves
  before. If the sink was sent that an alert fires, confirmed or not, it is also sent that it resolved, silenced or
  not: no incident stays open in the sink forever.
- A consequence is held back while its cause is firing and for a while after the cause resolved: it is sent if it is
  still firing then. Until then the incident is not resolved, and nothing new is sent while the quorum recovers.
- The end of an incident that was critical is sent after the same while: a page that flaps is one page.
- An acknowledged alert is not sent to a sink that was not notified of it, and what was sent is not repeated; its
  changes and its end are sent. A sink that shows acknowledgements is notified when they begin and end.
- A notification describes the worst alert that fires. A sink that was not notified of an open incident also gets what
  it was before, if that was worse.
- A sink that shows it is notified when a silence has ended of an alert that it was sent and that fires: nothing else
  may be new then, and people who silenced it forget.
- An open incident is sent again after each repeat interval; one of which all alerts are silenced or acknowledged only
  to a sink in which it would end by itself, and people would be notified that it resolved.
- Notifications that failed are sent later, none is lost. An incident that began and ended while the sink was
  unreachable becomes one `resolved` notification.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.acknowledgement import Acknowledgement, digest
from rules.notifications.incident import RECOVERY_MS
from rules.notifications.notification import (
    AlertHistory,
    EndedSilence,
    Notification,
    Notified,
    NotifyReason,
    TransitionStatus,
    alert_histories,
)
from rules.notifications.route import Hold, Silence, SilenceOfService
from rules.rule import DeclaredRule, urgency

UPDATE_INTERVAL_MS = Millis(60_000)
"""How long minor changes of one incident are collected, and the shortest time between two notifications of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationPlan:
    """What to send now, and what never has to be sent."""

    notifications: tuple[Notification, ...] = ()
    """The worst severity first, and of one alert the oldest incident first."""
    discarded: tuple[Alert, ...] = ()
    """Transitions of alerts that were suppressed from beginning to end."""
    silenced: int = 0
    """Number of firing alerts that a silence holds back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _AlertDecision:
    """One alert and whether it may be sent now."""

    history: AlertHistory
    silenced: bool
    inhibited: bool
    """Its cause is firing, or resolved a moment ago."""
    acknowledgement: Acknowledgement | None = None

    @property
    def suppressed(self) -> bool:
        """Nothing of it is sent while it fires."""
        acknowledged = self.acknowledgement is not None and not self.history.maybe_notified
        return self.silenced or self.inhibited or acknowledged

    @property
    def quiet(self) -> bool:
        """Nobody is reminded of it."""
        return self.suppressed or self.acknowledgement is not None or self.history.resolved

    @property
    def held_back(self) -> bool:
        return self.suppressed and not self.history.resolved

    @property
    def discarded(self) -> bool:
        return self.suppressed and self.history.resolved and not self.history.maybe_notified

    @property
    def sendable(self) -> bool:
        return not self.held_back and not self.discarded

    @property
    def listed(self) -> Alert:
        """The alert as the notification lists it: one that is held back, as the sink was notified of it."""
        return self.history.newest if self.sendable else self.history.delivered[-1]


class NotificationPlanner:
    """Plans the notifications of one sink. It has no state: the records say what was delivered."""

    def __init__(
        self,
        rules: Mapping[str, DeclaredRule],
        *,
        repeat_ms: Millis | None,
        expires: bool = False,
        shows_acknowledgements: bool = False,
        shows_ended_silences: bool = False,
    ) -> None:
        """`rules` by id: they say which rule inhibits which.

        `repeat_ms`: after how long an open incident is sent again, None for never; `expires`: one that is not sent
        again ends there by itself; `shows_acknowledgements`: the sink is notified of them; `shows_ended_silences`: it
        is notified when a silence has ended of what it was sent, and that fires.
        """
        self._rules = rules
        self._repeat_ms = repeat_ms
        self._expires = expires
        self._shows_acknowledgements = shows_acknowledgements
        self._shows_ended_silences = shows_ended_silences

    def plan(
        self,
        incidents: Mapping[str, Sequence[TransitionStatus]],
        *,
        last_notified: Mapping[str, Notified],
        holds: Iterable[Hold],
        now_ms: Millis,
        earlier: Mapping[str, Sequence[Alert]] = MappingProxyType({}),
    ) -> NotificationPlan:
        """Returns what to send now.

        `incidents`: by id, the transitions (oldest first, without discarded ones) of each that is firing or has a
        pending one. `earlier`: transitions of them from before the sink was added, which it never gets.
        """
        holds = [*holds]
        active = [hold for hold in holds if hold.active(now_ms)]
        ended = _ended_silences(holds, now_ms) if self._shows_ended_silences else []
        notifications: list[Notification] = []
        discarded: list[Alert] = []
        silenced = 0
        for incident, transitions in incidents.items():
            decisions = self._decisions(alert_histories(transitions), active, now_ms)
            discarded += [alert for decision in decisions if decision.discarded for alert in decision.history.pending]
            silenced += sum(decision.silenced and not decision.history.resolved for decision in decisions)
            last = last_notified.get(incident)
            silence = None if last is None else _ended_silence(decisions, ended, last)
            notification = self._notification(incident, decisions, last, now_ms, ended_silence=silence)
            if notification is not None and notification.firing and not notification.previously_notified:
                was = _worst_before(notification, decisions, earlier.get(incident, ()), active)
                notification = replace(notification, was=was)
            notifications += [notification] if notification else []
        return NotificationPlan(
            notifications=_worst_first(notifications), discarded=tuple(discarded), silenced=silenced
        )

    def _decisions(
        self, histories: Sequence[AlertHistory], active: Sequence[Hold], now_ms: Millis
    ) -> Sequence[_AlertDecision]:
        causes = {
            (history.newest.of_cluster, history.newest.rule)
            for history in histories
            # A wall clock that was set back must not hold anything back.
            if not history.resolved or 0 <= now_ms - history.newest.observed_at_ms < RECOVERY_MS
        }
        decisions = []
        for history in histories:
            alert = history.newest
            rule = self._rules.get(alert.rule)
            inhibited = any((alert.of_cluster, cause) in causes for cause in (rule.inhibited_by if rule else ()))
            matching = [hold for hold in active if hold.matches(alert)]
            decisions.append(
                _AlertDecision(
                    history=history,
                    silenced=any(isinstance(hold, Silence) for hold in matching),
                    inhibited=inhibited,
                    acknowledgement=next((hold for hold in matching if isinstance(hold, Acknowledgement)), None),
                )
            )
        return decisions

    def _notification(
        self,
        incident: str,
        decisions: Sequence[_AlertDecision],
        last: Notified | None,
        now_ms: Millis,
        *,
        ended_silence: EndedSilence | None,
    ) -> Notification | None:
        new = _sendable(decisions)
        # An alert that is held back stays listed if the sink was already notified of it.
        listed = [decision for decision in decisions if decision.sendable or decision.history.notified]
        # Of two alerts with one fingerprint the one that fires.
        newest = {one.fingerprint: one for one in sorted((decision.listed for decision in listed), key=_fires)}
        if not newest:
            return None
        reason = self._reason([decision.history for decision in listed], new, last, now_ms)
        quiet = not self._expires and all(decision.quiet for decision in listed)
        acknowledgements = _acknowledgements(listed)
        if reason in (None, NotifyReason.REPEATED) and self._shows_others(acknowledgements, listed, last):
            reason = NotifyReason.ACKNOWLEDGED
        if reason in (None, NotifyReason.REPEATED) and ended_silence is not None:
            reason = NotifyReason.UNSILENCED
        if reason is None or (reason is NotifyReason.REPEATED and quiet):
            return None
        if reason is NotifyReason.RESOLVED and _recovers(decisions, now_ms):
            return None
        escalations, escalations_before = _escalations(decisions)
        began_ms = min(decision.history.transitions[0].alert.started_at_ms for decision in listed)
        firing = [alert for alert in newest.values() if alert.state is AlertState.FIRING]
        rules = Counter(alert.rule for alert in firing or newest.values())
        ended_ms = Millis(max(alert.observed_at_ms for alert in newest.values()))
        return Notification(
            incident=incident,
            reason=reason,
            alerts=tuple(sorted(newest.values(), key=lambda alert: self._root_cause_order(alert, rules, ended_ms))),
            new_transitions=new,
            previously_notified=any(decision.history.notified for decision in decisions),
            began_ms=began_ms,
            worse=reason is NotifyReason.CHANGED and _is_noticeable([decision.history for decision in listed], new),
            escalations=escalations,
            escalations_before=escalations_before,
            repeats_ms=last.at_ms if last and reason is NotifyReason.REPEATED else None,
            acknowledgements=acknowledgements,
            ended_silence=ended_silence if reason in (NotifyReason.UNSILENCED, NotifyReason.CHANGED) else None,
        )

    def _shows_others(
        self, acknowledgements: Sequence[Acknowledgement], listed: Sequence[_AlertDecision], last: Notified | None
    ) -> bool:
        """Returns whether the sink shows an open incident, with other acknowledgements than these."""
        if not self._shows_acknowledgements or last is None or all(decision.suppressed for decision in listed):
            return False
        is_open = bool(_open_in_sink(decision.history for decision in listed))
        return is_open and digest(acknowledgements) != last.acknowledged

    def _reason(
        self, listed: Sequence[AlertHistory], new: Sequence[Alert], last: Notified | None, now_ms: Millis
    ) -> NotifyReason | None:
        if not new:
            if self._repeat_ms is None or last is None or all(history.resolved for history in listed):
                return None
            # A wall clock that was set back must not delay the repetition.
            return None if 0 <= now_ms - last.at_ms < self._repeat_ms else NotifyReason.REPEATED
        if all(history.resolved for history in listed):
            return NotifyReason.RESOLVED
        notified = _open_in_sink(listed)
        if not notified:
            return NotifyReason.FIRING
        fired, known = [alert for alert in new if _fires(alert)], {alert.fingerprint for alert in notified}
        # What expires is in a service that groups by itself: it gets each alert at once.
        if _is_worse(fired, notified) or (self._expires and any(alert.fingerprint not in known for alert in fired)):
            return NotifyReason.CHANGED
        # A wall clock that was set back must not delay an update.
        collected_since = [min(alert.observed_at_ms for alert in new)]
        collected_since += [] if last is None else [last.at_ms]
        waits = any(0 <= now_ms - at_ms < UPDATE_INTERVAL_MS for at_ms in collected_since)
        return None if waits else NotifyReason.CHANGED

    def _root_cause_order(
        self, alert: Alert, rules: Counter[str], ended_ms: Millis
    ) -> tuple[bool, bool, int, list[bool], int, int, Millis]:
        """Sorts firing before resolved, those by `urgency`, then by number of explaining alerts, then the oldest.

        An alert that resolved long before the newest transition is last: its text says what was true then.
        """
        rule = self._rules.get(alert.rule)
        causes = (*rule.inhibited_by, *rule.grouped_with) if rule else ()
        explained_by = sum(rules[cause] for cause in set(causes))
        resolved = alert.state is AlertState.RESOLVED
        former = resolved and ended_ms - alert.observed_at_ms > RECOVERY_MS
        rank, *order = urgency(rule, alert.severity)
        return resolved, former, 0 if resolved else rank, order, explained_by, rank, alert.started_at_ms


def _ended_silences(holds: Iterable[Hold], now_ms: Millis) -> Sequence[Silence]:
    """Returns the silences that were in force and ended here: not in a service, which shows that itself."""
    silences = (hold for hold in holds if isinstance(hold, Silence) and not isinstance(hold, SilenceOfService))
    return [silence for silence in silences if silence.starts_at_ms < silence.ends_at_ms <= now_ms]


def _ended_silence(
    decisions: Iterable[_AlertDecision], ended: Iterable[Silence], last: Notified
) -> EndedSilence | None:
    """Returns the newest silence that ended since the sink was notified last, of an alert that it knows and that fires;
    None if each of these alerts is still held back or acknowledged.
    """
    fires = [decision.history.newest for decision in decisions if decision.history.notified and not decision.quiet]
    found = [
        silence
        for silence in ended
        if silence.ends_at_ms > last.at_ms
        and any(alert.started_at_ms < silence.ends_at_ms and silence.matches(alert) for alert in fires)
    ]
    newest = max(found, key=lambda silence: silence.ends_at_ms, default=None)
    return None if newest is None else EndedSilence(by=newest.author, at_ms=newest.ends_at_ms)


def _recovers(decisions: Sequence[_AlertDecision], now_ms: Millis) -> bool:
    """Returns whether an incident without a firing alert that the sink gets may go on in a moment."""
    if any(decision.inhibited and decision.held_back for decision in decisions):
        return True
    if not any(decision.history.notified for decision in decisions):
        return False
    # A wall clock that was set back must not hold anything back.
    return any(
        0 <= now_ms - decision.history.newest.observed_at_ms < RECOVERY_MS
        and any(transition.alert.severity is Severity.CRITICAL for transition in decision.history.transitions)
        for decision in decisions
    )


def _worst_before(
    notification: Notification, decisions: Iterable[_AlertDecision], earlier: Iterable[Alert], active: Sequence[Hold]
) -> Alert | None:
    """Returns the newest of the worst transitions of an open incident that are worse than what fires; None: none is."""
    known = [alert for decision in decisions if decision.sendable for alert in decision.history.pending]
    known += [alert for alert in earlier if not any(hold.matches(alert) for hold in active)]
    worse = [alert for alert in known if _fires(alert) and alert.severity.rank > notification.severity.rank]
    return max(worse, key=lambda one: (one.severity.rank, one.observed_at_ms), default=None)


def _fires(alert: Alert) -> bool:
    return alert.state is AlertState.FIRING


def _worst_first(notifications: Sequence[Notification]) -> tuple[Notification, ...]:
    """Sorts the notifications of incidents, oldest first, by severity.

    The end of an incident is as urgent as a newer incident of the same alert: what comes last must be what is true.
    """
    ranks: dict[str, int] = {}
    for notification in notifications:
        for alert in notification.alerts:
            ranks[alert.fingerprint] = max(notification.severity.rank, ranks.get(alert.fingerprint, 0))
    return tuple(sorted(notifications, key=lambda one: -max(ranks[alert.fingerprint] for alert in one.alerts)))


def _sendable(decisions: Iterable[_AlertDecision]) -> tuple[Alert, ...]:
    """Returns the transitions that were not delivered and may be sent."""
    return tuple(alert for decision in decisions if decision.sendable for alert in decision.history.pending)


def _acknowledgements(listed: Iterable[_AlertDecision]) -> tuple[Acknowledgement, ...]:
    """Returns the acknowledgements of the alerts that the notification lists as firing."""
    return tuple(
        decision.acknowledgement
        for decision in listed
        if decision.acknowledgement is not None and decision.listed.state is AlertState.FIRING
    )


def _open_in_sink(listed: Iterable[AlertHistory]) -> list[Alert]:
    """Returns the alerts that fire as far as the sink was notified, also if their resolution was not sent yet."""
    return [each for history in listed for each in history.delivered[-1:] if each.state is AlertState.FIRING]


def _is_noticeable(listed: Sequence[AlertHistory], new: Sequence[Alert]) -> bool:
    """Returns whether a new transition makes an incident worse, is another alert as severe, or advises otherwise."""
    notified = _open_in_sink(listed)
    if not notified:
        return False
    worst, known = max(alert.severity.rank for alert in notified), {alert.fingerprint for alert in notified}
    fired = [alert for alert in new if alert.state is AlertState.FIRING]
    advised = {alert.fingerprint: _advice(alert) for alert in notified}
    return _is_worse(fired, notified) or any(
        alert.severity.rank == worst
        and (alert.fingerprint not in known or advised[alert.fingerprint] != _advice(alert))
        for alert in fired
    )


def _advice(alert: Alert) -> str | None:
    return None if alert.stated is None else alert.stated[1]


def _escalations(decisions: Iterable[_AlertDecision]) -> tuple[int, int]:
    """Returns how often the incident has escalated as far as the sink is notified: now, and when it was last notified.

    Only critical transitions escalate an incident: what a silence or a route holds back is no page of this sink.
    """
    known = [(status, decision.sendable) for decision in decisions for status in decision.history.transitions]
    now = max((status.escalations for status, sendable in known if _pages(status, sendable=sendable)), default=0)
    if any(status.delivered for status, _ in known):
        return now, max((status.escalations for status, _ in known if _pages(status, sendable=False)), default=0)
    return now, 0 if any(status.maybe_delivered for status, _ in known) else now


def _pages(status: TransitionStatus, *, sendable: bool) -> bool:
    critical = status.alert.severity is Severity.CRITICAL and status.alert.state is AlertState.FIRING
    return critical and (status.delivered or sendable)


def _is_worse(fired: Iterable[Alert], notified: Sequence[Alert]) -> bool:
    """Returns whether one of the alerts makes an incident worse than the sink was notified of."""
    worst, rules = max(alert.severity.rank for alert in notified), {alert.rule for alert in notified}
    return any(
        alert.severity.rank > worst or (alert.severity.rank == worst and alert.rule not in rules) for alert in fired
    )
