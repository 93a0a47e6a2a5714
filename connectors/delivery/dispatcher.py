"""Dispatches alerts to sinks: what is pending in the ledger, where every alert is before it is sent.

A failing or slow sink delays a micro-batch by at most one second.
"""

import time
from collections.abc import Mapping, Sequence

from connectors.delivery.delivery_report import SinkResult
from connectors.delivery.ledger import Ledger
from connectors.delivery.sink_worker import SinkWorker, new_keys
from connectors.errors import UsageError
from connectors.sinks.sink import Sink
from rules.model.identifiers import Millis
from rules.model.job_state import SinkState
from rules.notifications.route import Hold


class Dispatcher:
    """Delivers every alert to every sink. Not thread-safe. Raises StoreError if the ledger cannot be written."""

    def __init__(
        self,
        ledger: Ledger,
        sinks: Sequence[Sink],
        *,
        deadline_s: float = 10.0,
        patience_s: float = 1.0,
    ) -> None:
        """Adds the sinks to the ledger. Raises UsageError if two sinks have the same name.

        `deadline_s`: the longest duration of one call to one sink; `patience_s`: how long a batch waits for all its
        sinks together: what is not sent yet is safe in the ledger.
        """
        self._ledger = ledger
        self._deadline_s = deadline_s
        self._patience_s = patience_s
        self._workers: list[SinkWorker] = []
        self.set_sinks(sinks)

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
        """Waits for the calls in progress, for all together at most for their deadline, and records their outcome."""
        self._collect_results(self._deadline_s, now_ms)
        # What was answered while another one was waited for.
        self._collect_results(0.0, now_ms)

    @property
    def sink_states(self) -> Sequence[SinkState]:
        """Which sinks fail, for the rule about them."""
        return [
            SinkState(
                name=worker.name,
                known=worker.state_known,
                failing=worker.failing,
                pending=self._ledger.pending_count(worker.name),
                not_accepted=worker.not_accepted,
            )
            for worker in self._workers
        ]

    def deliver(self, now_ms: Millis, holds: Sequence[Hold] = ()) -> Mapping[str, SinkResult]:
        """Sends each sink what is pending; returns the results by sink name.

        When this returns, every alert is delivered or safe in the ledger. The sinks are called in parallel, each in its
        own thread; a late outcome is collected by a later delivery.

        Args:
            now_ms: the wall clock, which becomes `sent_at` and drives repetitions and retries.
            holds: the silences and acknowledgements in force.
        """
        due = [(worker, worker.due(holds, now_ms)) for worker in self._workers]
        calls = [(worker, notifications) for worker, notifications in due if notifications]
        if calls:
            # Before them: if the job is killed during a call, the sink may have been notified.
            self._ledger.begin_calls({worker.name: new_keys(notifications) for worker, notifications in calls})
        for worker, notifications in calls:
            worker.start_call(notifications, now_ms)
        return self._collect_results(self._patience_s, now_ms)

    def _collect_results(self, timeout_s: float, now_ms: Millis) -> Mapping[str, SinkResult]:
        """Waits at most `timeout_s` for the calls in progress; returns the results by sink name."""
        until = time.monotonic() + timeout_s
        return {
            worker.name: worker.collect_results(max(0.0, until - time.monotonic()), now_ms) for worker in self._workers
        }
