"""SinkWorker: plans what one sink is sent, delivers it, one call at a time, and records the outcome in the ledger."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from threading import Thread

from connectors.delivery.delivery_report import SinkResult
from connectors.delivery.ledger import Ledger
from connectors.delivery.retries import RetrySchedule, SetAside
from connectors.process.json_log import alert_fields
from connectors.settings.secret import redact
from connectors.sinks.sink import Delivered, DeliveryMode, Outcome, Rejected, Retry, Sink
from rules.alert import Alert, AlertId, AlertKey, AlertState
from rules.evaluate import ALL_RULES
from rules.job.sink_failing import subject_of
from rules.model.identifiers import Millis
from rules.model.job_state import JOB_CLUSTER_ID
from rules.notifications.notification import Notification, alert_histories, single_alert_notification
from rules.notifications.planner import NotificationPlanner
from rules.notifications.route import Hold, SilenceOfService

_LOG = logging.getLogger(__name__)
_MAX_NOTIFICATIONS = 500
"""The most notifications in one call: after a long outage the rest waits for the next call."""


def new_keys(notifications: Iterable[Notification]) -> Sequence[AlertKey]:
    """Returns the keys of the transitions that notifications report."""
    return [alert.key for notification in notifications for alert in notification.new_transitions]


class SinkCall:
    """One call to one sink, with a deadline that is kept whatever the sink does.

    The call runs in its own thread, because a deadline cannot interrupt a blocked write or a hanging name lookup. A
    call that misses its deadline keeps running; its outcome is collected later, and the sink is not called again before
    that.
    """

    def __init__(
        self, sink: Sink, notifications: Sequence[Notification], *, sent_at_ms: Millis, deadline_s: float
    ) -> None:
        self._outcomes: Future[Sequence[Outcome]] = Future()
        self.overdue_at = time.monotonic() + deadline_s
        send = partial(sink.send, notifications, sent_at_ms=sent_at_ms, deadline_s=deadline_s)
        name = f"notify {sink.options.name}"
        Thread(target=self._run, args=(send, len(notifications)), name=name, daemon=True).start()

    def outcomes(self, timeout_s: float) -> Sequence[Outcome] | None:
        """Waits at most `timeout_s`; returns one outcome per notification, or None while the call is in progress."""
        try:
            return self._outcomes.result(timeout_s)
        except TimeoutError:
            return None

    def _run(self, send: Callable[[], Sequence[Outcome]], count: int) -> None:
        try:
            outcomes = send()
        except Exception as error:  # noqa: BLE001 - an error in one sink must not affect the other sinks
            outcomes = [Retry(reason=redact(f"{type(error).__name__}: {error}"))] * count
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that collects the outcomes
            self._outcomes.set_exception(error)
            return
        if len(outcomes) != count:
            outcomes = [Retry(reason=f"the sink returned {len(outcomes)} outcomes for {count} notifications")] * count
        self._outcomes.set_result(outcomes)


class SinkWorker:
    """Routes and plans for one sink, calls it, and decides when the next call may begin.

    Raises StoreError if the ledger cannot be written.
    """

    def __init__(self, ledger: Ledger, sink: Sink, deadline_s: float) -> None:
        self.name = sink.options.name
        self.sink = sink
        self._ledger = ledger
        self._deadline_s = deadline_s
        self._route = sink.options.route
        repeat_s = sink.options.repeat_s
        self._planner = NotificationPlanner(
            ALL_RULES,
            repeat_ms=None if repeat_s is None else Millis(round(repeat_s * 1000)),
            expires=sink.options.expires,
            shows_acknowledgements=sink.options.shows_acknowledgements,
            shows_ended_silences=sink.options.shows_ended_silences,
        )
        """Of a sink that notifies people; others get each transition."""
        self._silenced = 0
        """Firing alerts that a silence held back in the newest plan."""
        self._retries = RetrySchedule()
        self._set_aside = SetAside(ordered=not self.notifies_people)
        self._call: SinkCall | None = None
        self._sent: Sequence[Notification] = ()
        """What the call in progress sends."""
        self._overdue = False
        """The deadline of the call in progress has passed."""
        self._failing: str | None = None
        self._counts: Counter[type[Outcome]] = Counter()
        """Outcomes that were collected in this delivery, by type."""
        # A reload, or a restart, may have changed what it takes.
        ledger.add_sink(self.name, self._takes)

    def take_over(self, predecessor: "SinkWorker") -> None:
        """Takes over the call in progress of a replaced sink of the same name: it is not repeated."""
        self._call, self._overdue, self._sent = predecessor._call, predecessor._overdue, predecessor._sent

    def due(self, holds: Sequence[Hold], now_ms: Millis) -> Sequence[Notification]:
        """Returns what to send now, if the earlier call has ended: what did not fail yet first."""
        self._counts.clear()
        self._collect(0.0, now_ms)
        if self._call is not None:
            return ()
        # Also while nothing may be sent: what a silence holds back and resolves is discarded before the silence ends.
        planned = self._plan(holds, now_ms)
        if not self._retries.due(now_ms):
            return ()
        return [*self._set_aside.new(planned), *self._set_aside.due(planned, now_ms)][:_MAX_NOTIFICATIONS]

    def start_call(self, notifications: Sequence[Notification], now_ms: Millis) -> None:
        """Sends what is due."""
        documents = [self._set_aside.document(notification) for notification in notifications]
        self._call = SinkCall(self.sink, documents, sent_at_ms=now_ms, deadline_s=self._deadline_s)
        self._sent, self._overdue = notifications, False

    def collect_results(self, timeout_s: float, now_ms: Millis) -> SinkResult:
        """Waits at most `timeout_s` for the call in progress and returns the result of this delivery."""
        # An overdue call has already cost its deadline: no batch waits for it again.
        self._collect(0.0 if self._overdue else min(timeout_s, self._deadline_s), now_ms)
        return SinkResult(
            delivered=self._counts[Delivered],
            retry=self._counts[Retry],
            rejected=self._counts[Rejected],
            pending=self._ledger.pending_count(self.name),
            silenced=self._silenced,
            failing=self.failing,
            not_accepted=self.not_accepted,
        )

    @property
    def not_accepted(self) -> tuple[str, ...]:
        """What the notifications are about that it does not accept while it accepts others."""
        return () if self._failing else tuple(self._set_aside.subjects)

    @property
    def accepts_nothing(self) -> bool:
        """Whether its newest call failed as a whole: of single notifications that are not accepted, others are."""
        return self._failing is not None

    @property
    def failing(self) -> str | None:
        """Why delivery fails, as a whole or in part; None while it does not."""
        return self._failing or self._set_aside.reason

    @property
    def notifies_people(self) -> bool:
        """Whether it sends incidents, not every transition."""
        return self.sink.options.mode is not DeliveryMode.TRANSITIONS

    @property
    def state_known(self) -> bool:
        """Whether it is known if the sink fails: it does, or no call is in progress."""
        return self.failing is not None or self._call is None

    def _collect(self, timeout_s: float, now_ms: Millis) -> None:
        if self._call is None:
            return
        outcomes = self._call.outcomes(timeout_s)
        if outcomes is None:
            if time.monotonic() >= self._call.overdue_at and not self._overdue:
                self._overdue = True
                self._failing = f"no response within {self._deadline_s:g} s"
                why = self._failing
                _LOG.warning("%s: %s; other sinks are not delayed.", self.name, why, extra={"sink": self.name})
            return
        pairs = list(zip(self._sent, outcomes, strict=True))
        self._record(pairs, now_ms)
        # Not before: what the sink has accepted is not sent again when the store did not answer.
        self._call = None
        self._schedule(pairs, now_ms)

    def _record(self, pairs: Sequence[tuple[Notification, Outcome]], now_ms: Millis) -> None:
        done = [notification for notification, outcome in pairs if isinstance(outcome, Delivered)]
        notified = {one.incident: one.notified_at(now_ms) for one in done} if self.notifies_people else {}
        self._ledger.mark_delivered(self.name, new_keys(done), notified=notified)
        self._counts.update(type(outcome) for _, outcome in pairs)

    def _schedule(self, pairs: Sequence[tuple[Notification, Outcome]], now_ms: Millis) -> None:
        delivered = any(isinstance(outcome, Delivered) for _, outcome in pairs)
        failures = [outcome for _, outcome in pairs if not isinstance(outcome, Delivered)]
        after_s = max((outcome.after_s for outcome in failures if isinstance(outcome, Retry)), default=0.0)
        only_again = not self._set_aside.new([notification for notification, _ in pairs])
        failing_before = self._retries.failing
        works = delivered or (only_again and not failing_before)
        new = self._set_aside.add(pairs, sink_works=works, now_ms=now_ms)
        if delivered:
            self._retries.succeeded()
        if after_s or (failures and not works):
            longest = max(failures, key=lambda outcome: outcome.after_s if isinstance(outcome, Retry) else 0.0)
            self._failing = longest.reason
            delay_s = self._retries.failed(after_s, now_ms)
            if not failing_before:
                _LOG.warning(
                    "%s: delivery failed; retrying in %g s: %s",
                    self.name,
                    delay_s,
                    longest.reason,
                    extra={"sink": self.name},
                )
            return
        self._failing = None
        for notification in new:
            root, reason = notification.root, self._set_aside.reason
            _LOG.warning(
                "%s does not accept %s of %s; retrying it last: %s",
                self.name,
                root.rule,
                root.cluster,
                reason,
                extra={"sink": self.name, **alert_fields(root)},
            )

    def _takes(self, alert: Alert) -> bool:
        """Returns whether the sink gets this transition: it matches the route, and is not about the sink itself."""
        return self._route.matches(alert) and not _is_about(alert, self.name)

    def _plan(self, holds: Sequence[Hold], now_ms: Millis) -> Sequence[Notification]:
        """Returns what to send now; records in the ledger what is never sent to this sink."""
        held = self._held_unrouted()
        if not self.notifies_people:
            pending = [alert for alert in self._ledger.pending(self.name) if alert.alert_id not in held]
            return [single_alert_notification(alert) for alert in pending]
        known = self._ledger.last_notified(self.name)
        incidents = {
            incident: [transition for transition in transitions if transition.alert.alert_id not in held]
            for incident, transitions in self._ledger.incidents(self.name).items()
        }
        if self.sink.options.expires:
            # It is Alertmanager, which silences by itself what it has.
            holds = [hold for hold in holds if not isinstance(hold, SilenceOfService)]
        earlier = {
            incident: [alert for alert in alerts if self._takes(alert)]
            for incident, alerts in self._ledger.earlier(self.name).items()
            if incident in incidents and incident not in known
        }
        plan = self._planner.plan(incidents, last_notified=known, holds=holds, now_ms=now_ms, earlier=earlier)
        self._silenced = plan.silenced
        self._ledger.discard(self.name, [alert.key for alert in plan.discarded])
        return plan.notifications

    def _held_unrouted(self) -> Collection[AlertId]:
        """Discards what does not match the route, and alerts about the failure of this sink itself.

        Returns the alerts that do not match and that the sink may have nevertheless: only their end is sent.
        """
        # The beginning of one that ended may have been discarded: by another route than now.
        if all(self._takes(alert) and alert.state is AlertState.FIRING for alert in self._ledger.pending(self.name)):
            return ()
        unrouted = [
            history
            for transitions in self._ledger.incidents(self.name).values()
            for history in alert_histories(transitions)
            if _is_about(history.newest, self.name) or not self._route.matches_history(history)
        ]
        never = [history for history in unrouted if not history.maybe_notified]
        self._ledger.discard(self.name, [alert.key for history in never for alert in history.pending])
        return {history.newest.alert_id for history in unrouted}


def _is_about(alert: Alert, sink: str) -> bool:
    """Returns whether an alert reports that this sink fails: it is not sent there."""
    return alert.cluster_id == JOB_CLUSTER_ID and alert.about == subject_of(sink)
