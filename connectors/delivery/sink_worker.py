"""SinkWorker: delivers to one sink, one call at a time, and records the outcome in the ledger."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from connectors.delivery.delivery_report import SinkResult
from connectors.delivery.ledger import Ledger
from connectors.delivery.retry_schedule import RetrySchedule
from connectors.delivery.sink_call import SinkCall
from connectors.delivery.sink_failure_alerts import SinkFailure
from connectors.delivery.sink_planner import SinkPlanner
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry, Sink
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification
from rules.notifications.silence import Silence

_LOG = logging.getLogger(__name__)
_MAX_NOTIFICATIONS = 500
"""The most notifications in one call: after a long outage the rest waits for the next call."""


class SinkWorker:
    """One sink, the call that is in progress, and when the next call may begin."""

    def __init__(self, ledger: Ledger, sink: Sink, deadline_s: float) -> None:
        """Adds the sink to the ledger.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        self.name = sink.options.name
        self.sink = sink
        self._ledger = ledger
        self._deadline_s = deadline_s
        self._planner = SinkPlanner(ledger, sink.options)
        self._retries = RetrySchedule()
        self._call: SinkCall | None = None
        self._overdue = False
        """The deadline of the call in progress has passed."""
        self._failing: str | None = None
        self._result = SinkResult()
        ledger.add_sink(self.name)

    def take_over(self, predecessor: "SinkWorker") -> None:
        """Takes over the call in progress of a replaced sink of the same name: it is not repeated."""
        self._call, self._overdue = predecessor._call, predecessor._overdue

    def start_call(self, silences: Sequence[Silence], now_ms: Millis) -> None:
        """Collects the outcome of an earlier call; then starts a call if there is something to send and it is due.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        self._result = SinkResult()
        self._collect(0.0, now_ms)
        if self._call is not None or not self._retries.due(now_ms):
            return
        notifications = self._planner.plan(silences, now_ms)[:_MAX_NOTIFICATIONS]
        if notifications:
            # Before the call: if the job is killed during it, the sink may have been notified.
            self._ledger.mark_delivered(self.name, (), notified_ms=self._planner.new_incidents(notifications, now_ms))
            self._call = SinkCall(self.sink, notifications, sent_at_ms=now_ms, deadline_s=self._deadline_s)
            self._overdue = False

    def collect_results(self, timeout_s: float, now_ms: Millis) -> SinkResult:
        """Waits at most `timeout_s` for the call in progress and returns the result of this delivery.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        # An overdue call has already cost its deadline: no batch waits for it again.
        self._collect(0.0 if self._overdue else min(timeout_s, self._deadline_s), now_ms)
        pending = self._ledger.pending_count(self.name)
        return replace(self._result, pending=pending, silenced=self._planner.silenced, failing=self._failing)

    @property
    def state_known(self) -> bool:
        """Whether it is known if the sink fails: it does, or no call is in progress."""
        return self._failing is not None or self._call is None

    @property
    def failure(self) -> SinkFailure | None:
        """Why delivery to the sink fails; None while it does not."""
        if self._failing is None:
            return None
        return SinkFailure(reason=self._failing, pending=self._ledger.pending_count(self.name))

    def _collect(self, timeout_s: float, now_ms: Millis) -> None:
        if self._call is None:
            return
        outcomes = self._call.outcomes(timeout_s)
        if outcomes is None:
            if self._call.overdue and not self._overdue:
                self._overdue = True
                self._failing = f"no response within {self._deadline_s:g} s"
                _LOG.warning("%s: %s; other sinks are not delayed.", self.name, self._failing)
            return
        notifications, self._call = self._call.notifications, None
        self._record(notifications, outcomes, now_ms)
        self._schedule(outcomes, now_ms)

    def _record(self, notifications: Sequence[Notification], outcomes: Sequence[Outcome], now_ms: Millis) -> None:
        pairs = list(zip(notifications, outcomes, strict=True))
        done = [notification for notification, outcome in pairs if not isinstance(outcome, Retry)]
        self._ledger.mark_delivered(
            self.name,
            [alert.key for notification in done for alert in notification.new_transitions],
            notified_ms=self._planner.notified_incidents(done, now_ms),
        )
        for notification, outcome in pairs:
            self._count(notification, outcome)
            keys = {alert.key for alert in notification.new_transitions}
            if isinstance(outcome, Retry):
                self._planner.unconfirmed(keys)
            else:
                self._planner.confirmed(keys)

    def _count(self, notification: Notification, outcome: Outcome) -> None:
        result, root = self._result, notification.root
        match outcome:
            case Delivered():
                self._result = replace(result, delivered=result.delivered + 1)
            case Retry():
                self._result = replace(result, retry=result.retry + 1)
            case Rejected(reason=reason):
                self._result = replace(result, rejected=result.rejected + 1)
                _LOG.warning("%s rejected %s of %s permanently: %s", self.name, root.rule, root.cluster, reason)

    def _schedule(self, outcomes: Sequence[Outcome], now_ms: Millis) -> None:
        retries = [outcome for outcome in outcomes if isinstance(outcome, Retry)]
        if not retries:
            self._failing = None
            self._retries.succeeded()
            return
        longest = max(retries, key=lambda retry: retry.after_s)
        self._failing = longest.reason
        first_failure = not self._retries.failing
        delay_s = self._retries.failed(longest.after_s, now_ms)
        if first_failure:
            _LOG.warning("%s: delivery failed; retrying in %g s: %s", self.name, delay_s, longest.reason)
