"""Dispatches alerts to sinks. Every alert is written to the ledger before it is sent.

A failing or slow sink delays a micro-batch by at most one second.
"""

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from connectors.delivery.delivery_report import DeliveryReport
from connectors.delivery.job_alerts import NOTHING_MONITORED, CutOffAlerts, SinkFailureAlerts, VisibilitySource
from connectors.delivery.ledger import Ledger
from connectors.delivery.sink_worker import SinkWorker
from connectors.errors import UsageError
from connectors.sinks.sink import Sink
from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.notifications.route import Silence

SilenceSource: TypeAlias = Callable[[Millis], Sequence[Silence]]
"""Returns the silences; called at each delivery with the wall clock."""


class Dispatcher:
    """Delivers every alert to every sink. Not thread-safe. Raises StoreError if the ledger cannot be written."""

    def __init__(
        self,
        ledger: Ledger,
        sinks: Sequence[Sink],
        *,
        silences: SilenceSource = lambda _: (),
        visibility: VisibilitySource = lambda: NOTHING_MONITORED,
        deadline_s: float = 10.0,
        patience_s: float = 1.0,
    ) -> None:
        """Adds the sinks to the ledger. Raises UsageError if two sinks have the same name.

        `deadline_s`: the longest duration of one call to one sink; `patience_s`: how long a batch waits for all its
        sinks together: what is not sent yet is safe in the ledger.
        """
        self._ledger = ledger
        self._silences = silences
        self._visibility = visibility
        self._deadline_s = deadline_s
        self._patience_s = patience_s
        self._failure_alerts = SinkFailureAlerts(ledger.firing())
        self._cut_off_alerts = CutOffAlerts(ledger.firing())
        self._own_alerts: Sequence[Alert] = ()
        """Alerts about failing sinks; they are recorded with the next alerts."""
        self._workers: list[SinkWorker] = []
        self.set_sinks(sinks)

    def take_over(self, predecessor: "Dispatcher", now_ms: Millis) -> None:
        """Continues the holds of this job's former dispatcher: jobs that cannot reach a sink take turns each minute."""
        self._failure_alerts.take_over(predecessor._failure_alerts, now_ms)

    def set_sinks(self, sinks: Sequence[Sink]) -> None:
        """Replaces the sinks; a sink that stays keeps its state.

        Raises UsageError if two sinks have the same name; nothing was changed.
        """
        names = [sink.options.name for sink in sinks]
        duplicate = next((name for name in names if names.count(name) > 1), None)
        if duplicate is not None:
            raise UsageError(f"The sink {duplicate} is configured twice: give each sink its own name.")
        before = {worker.name: worker for worker in self._workers}
        self._workers = [self._worker(sink, before.get(sink.options.name)) for sink in sinks]
        for name in before.keys() - set(names):
            self._ledger.deactivate_sink(name)

    def _worker(self, sink: Sink, before: SinkWorker | None) -> SinkWorker:
        if before is not None and before.sink is sink:
            return before
        worker = SinkWorker(self._ledger, sink, self._deadline_s)
        if before is not None:
            worker.take_over(before)
        return worker

    @property
    def people_not_reached(self) -> bool:
        """Whether a sink for people did not accept its newest notifications."""
        return any(worker.failing is not None for worker in self._workers if worker.notifies_people)

    @property
    def nobody_is_reached(self) -> bool:
        """Whether no sink for people accepts a notification: then only the heartbeat's end tells anybody."""
        people = [worker for worker in self._workers if worker.notifies_people]
        return bool(people) and all(worker.accepts_nothing for worker in people)

    def settle(self, now_ms: Millis) -> None:
        """Waits for the calls in progress, at most for their deadline, and records their outcome."""
        for worker in self._workers:
            worker.collect_results(self._deadline_s, now_ms)

    def deliver(self, alerts: Sequence[Alert], now_ms: Millis) -> DeliveryReport:
        """Records the alerts, then sends each sink what is pending; with no alerts, only the latter.

        When this returns, every alert is delivered or safe in the ledger: the batch may be committed. The sinks are
        called in parallel, each in its own thread; a late outcome is collected by a later delivery.

        `alerts`: transitions, in order; those that the ledger already has are ignored. `now_ms`, the wall clock,
        becomes `sent_at` and drives silences, repetitions and retries.
        """
        recorded = [*self._ledger.record([*alerts, *self._own_alerts], now_ms)]
        # Before anything is sent: people are notified of it instead of the first cluster's alert.
        cut_off = self._cut_off_alerts.due(self._ledger.firing(), self._visibility(), now_ms)
        recorded += self._ledger.record(cut_off, now_ms)
        silences = [*self._silences(now_ms), *self._cut_off_alerts.holds(now_ms)]
        for worker in self._workers:
            worker.start_call(silences, now_ms)
        until = time.monotonic() + self._patience_s
        results = {
            worker.name: worker.collect_results(max(0.0, until - time.monotonic()), now_ms) for worker in self._workers
        }
        known = {worker.name: results[worker.name] for worker in self._workers if worker.state_known}
        removed = self._failure_alerts.removed_sinks(list(results))
        self._own_alerts = self._failure_alerts.due({**known, **removed}, now_ms)
        return DeliveryReport(recorded=len(recorded), sinks=results)
