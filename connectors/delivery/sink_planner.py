"""SinkPlanner: turns what the ledger holds for one sink into the notifications to send now."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from connectors.delivery.ledger import Ledger
from connectors.delivery.sink_failure_alerts import is_about
from connectors.sinks.alert_json import Key
from connectors.sinks.sink import DeliveryMode, DeliveryOptions
from rules.alert import Alert
from rules.evaluate import RULES
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification, TransitionStatus, alert_histories, single_alert_notification
from rules.notifications.planner import NotificationPlanner
from rules.notifications.route import Silence


class SinkPlanner:
    """Routes and plans for one sink. Raises StoreError if the ledger cannot be written."""

    def __init__(self, ledger: Ledger, options: DeliveryOptions) -> None:
        """`options` are the sink's; the sink is known to the ledger when a plan is made."""
        self._ledger = ledger
        self._sink = options.name
        self._route = options.route
        repeat_ms = None if options.repeat_s is None else Millis(round(options.repeat_s * 1000))
        per_transition = options.mode is DeliveryMode.TRANSITIONS
        planner = NotificationPlanner(RULES, repeat_ms=repeat_ms, expires=options.expires)
        self._planner = None if per_transition else planner
        self._maybe_delivered: set[Key] = set()
        """Transitions whose acceptance was not confirmed: the end of their alerts is sent, silenced or not."""
        self.silenced = 0
        """Firing alerts that a silence held back in the newest plan."""

    def takes(self, alert: Alert) -> bool:
        """Returns whether the sink gets this transition: it matches the route, and is not about the sink itself."""
        return self._route.matches(alert) and not is_about(alert, self._sink)

    def plan(self, silences: Sequence[Silence], now_ms: Millis) -> Sequence[Notification]:
        """Returns what to send now; records in the ledger what is never sent to this sink."""
        self._discard_unrouted()
        if self._planner is None:
            return [single_alert_notification(alert) for alert in self._ledger.pending(self._sink)]
        plan = self._planner.plan(
            self._incidents(),
            last_notified_ms=self._ledger.last_notified_ms(self._sink),
            silences=silences,
            now_ms=now_ms,
        )
        self.silenced = plan.silenced
        self._ledger.discard(self._sink, [alert.key for alert in plan.discarded])
        return plan.notifications

    def notified_incidents(self, delivered: Sequence[Notification], now_ms: Millis) -> Mapping[str, Millis]:
        """Returns the incidents to record as notified; none for a sink that gets each transition."""
        return {} if self._planner is None else {notification.incident: now_ms for notification in delivered}

    def new_incidents(self, planned: Sequence[Notification], now_ms: Millis) -> Mapping[str, Millis]:
        """Returns the incidents of which the sink is notified for the first time, to record before they are sent."""
        known = self._ledger.last_notified_ms(self._sink)
        incidents = self.notified_incidents(planned, now_ms)
        return {incident: at_ms for incident, at_ms in incidents.items() if incident not in known}

    def confirmed(self, keys: Collection[Key]) -> None:
        """The sink accepted these transitions."""
        self._maybe_delivered.difference_update(keys)

    def unconfirmed(self, keys: Collection[Key]) -> None:
        """The sink may have received these transitions, but did not confirm it."""
        self._maybe_delivered.update(keys)

    def _incidents(self) -> Mapping[str, Sequence[TransitionStatus]]:
        known = self._ledger.last_notified_ms(self._sink)
        return {
            incident: self._with_attempts(transitions) if incident in known else transitions
            for incident, transitions in self._ledger.incidents(self._sink).items()
        }

    def _with_attempts(self, transitions: Sequence[TransitionStatus]) -> Sequence[TransitionStatus]:
        """Marks what the sink may have received. `transitions` are those of an incident of which it was notified."""
        unconfirmed = {each.alert.key for each in transitions} & self._maybe_delivered
        if not unconfirmed and not any(each.delivered for each in transitions):
            # An earlier process sent the first notification, and was killed before it recorded the outcome.
            unconfirmed = {each.alert.key for each in transitions}
        if not unconfirmed:
            return transitions
        return [replace(each, maybe_delivered=each.alert.key in unconfirmed) for each in transitions]

    def _discard_unrouted(self) -> None:
        """Discards what does not match the route, and alerts about the failure of this sink itself."""
        pending = self._ledger.pending(self._sink)
        if all(map(self.takes, pending)):
            return
        unrouted = [
            alert.key
            for transitions in self._ledger.incidents(self._sink).values()
            for history in alert_histories(transitions)
            if is_about(history.newest, self._sink) or not self._route.matches_history(history)
            for alert in history.pending
        ]
        self._ledger.discard(self._sink, unrouted)
