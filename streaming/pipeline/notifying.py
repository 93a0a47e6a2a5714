"""Notifying: what fires in each cluster goes to the ledger, and from there to the sinks, if this job has that role.

Each monitor says what fires (`rules.firing.Firing`), and the newest of each cluster is kept here. The job that notifies
makes the ledger agree with them, and sends what that changed. A standby only keeps them: once it notifies, it does the
same with all of them. A store that does not answer delays that, and nothing else: what fires then is compared later.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final, Protocol

from connectors.delivery.delivery_report import DeliveryReport
from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.errors import KraftwatchError, LeaseLostError, UnavailableStoreError
from connectors.process.wall_clock import wall_ms
from connectors.sinks.sink import Sink
from rules.alert import Alert
from rules.firing import Firing
from rules.model.identifiers import Millis
from rules.model.job_state import JOB_CLUSTER_ID, SinkState
from rules.notifications.route import Hold
from streaming.pipeline.active_role import JobRole, OnlyJob
from streaming.replay.contract_violations import failure_reason
from streaming.status.status_store import Engine, StatusStore

log = logging.getLogger(__name__)

_REFRESH_S: Final = 10.0
_UNRECORDED_MS: Final = 60_000
"""How long a standby keeps what has ended: the active job may end before it has recorded the same. Longer than a
takeover."""
_NOTHING: Final = DeliveryReport(recorded=1, sinks={})


class JobEvaluation(Protocol):
    """The rules about the job itself (`streaming.job.job_monitor`)."""

    def begin(self, recorded: Sequence[Alert]) -> None:
        """This job begins to notify; `recorded`: the alerts that fire in the ledger."""

    def evaluate(self, recorded: Sequence[Alert], sinks: Sequence[SinkState]) -> Firing:
        """Returns what fires about the job; `sinks`: which of them fail."""

    def holds(self) -> Sequence[Hold]:
        """Returns what suppresses alerts of clusters that an alert about the job reports."""


class Notifying:
    """Of all threads that find something: each method that changes something waits for the one that is in progress."""

    def __init__(
        self,
        ledger: Ledger,
        sinks: Sequence[Sink],
        *,
        store: StatusStore,
        role: JobRole | None = None,
        job: JobEvaluation | None = None,
        holds: Callable[[Millis], Sequence[Hold]] | None = None,
        deadline_s: float = 10.0,
        patience_s: float = 1.0,
        clock: Callable[[], Millis] | None = None,
    ) -> None:
        """Begins to notify, unless another job may.

        Args:
            ledger: where alerts are recorded.
            sinks: which are notified.
            store: for the pages; it has the configured clusters: the alerts of all others end.
            role: by default that of the only job.
            job: what fires about the job itself, if that is evaluated.
            holds: returns the silences and acknowledgements in force at a time.
            deadline_s: the longest duration of one call to one sink.
            patience_s: how long a batch waits for all its sinks together.
            clock: the time of a recording which is played; by default the wall clock.

        Raises:
            UsageError: two sinks have the same name.
        """
        self.ledger, self.store, self._sinks = ledger, store, sinks
        self._deadline_s, self._patience_s, self._clock = deadline_s, patience_s, clock
        self.role: JobRole = role or OnlyJob()
        self._job, self._holds = job, holds
        self._job_failure: str | None = None
        """Why the job was not evaluated, as it was logged last."""
        self._delivery: Dispatcher | None = None
        """None while another job notifies."""
        self._newest_delivery: Dispatcher | None = None
        """Also while another job notifies."""
        self._firing: dict[str, Firing] = {}
        """The newest of each cluster by Spark."""
        self._understudy: dict[str, Firing] = {}
        """Those of the understudy, of the clusters for which it counts."""
        self._changed: set[str] | None = None
        """The clusters that the ledger may not agree with; None: all."""
        self._refresh_at = 0.0
        self._store_failed = False
        """The newest write may have taken effect or not."""
        self._lock = threading.Lock()
        if self.role.is_active:
            self._delivery = self._begin()

    @property
    def notifies(self) -> bool:
        """Whether this job records alerts and calls the sinks."""
        return self._delivery is not None and self.role.is_active

    def set_sinks(self, sinks: Sequence[Sink]) -> None:
        """Replaces the sinks; raises UsageError if two have the same name: nothing was changed.

        If another job notifies by now, they are kept for when this one does again.
        """
        with self._lock:
            try:
                if self._delivery is not None:
                    self._delivery.set_sinks(sinks)
            except LeaseLostError as problem:
                log.warning("%s", problem)
                self._stand_by()
            self._sinks = sinks

    @property
    def sink_states(self) -> Sequence[SinkState]:
        """Which sinks fail."""
        return () if self._newest_delivery is None else self._newest_delivery.sink_states

    @property
    def people_not_reached(self) -> bool:
        """Whether a sink for people did not accept its newest notifications when this job called it last."""
        return self._newest_delivery is not None and self._newest_delivery.people_not_reached

    @property
    def nobody_is_reached(self) -> bool:
        """Whether this job notifies, and no sink for people accepts a notification."""
        return self.notifies and self._newest_delivery is not None and self._newest_delivery.nobody_is_reached

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is recorded or sent while this is entered."""
        with self._lock:
            yield

    def put(self, firing: Firing, by: Engine = Engine.SPARK) -> None:
        """Keeps what fires in a cluster by one of the engines; while the understudy has put something, that counts."""
        with self._lock:
            known = self._firing if by is Engine.SPARK else self._understudy
            before = known.get(firing.cluster)
            known[firing.cluster] = firing if before is None else firing.after(before)
            self._note_change(firing.cluster)

    def engine_of(self, cluster: str) -> Engine:
        """Returns the engine that counts for a cluster."""
        return Engine.UNDERSTUDY if cluster in self._understudy else Engine.SPARK

    def hand_back(self, cluster: str) -> None:
        """Spark has evaluated this cluster as far as the understudy: what Spark finds counts from now on."""
        with self._lock:
            self._understudy.pop(cluster, None)
            self._note_change(cluster)

    def _note_change(self, cluster: str) -> None:
        if self._changed is not None:
            self._changed.add(cluster)

    def send(self) -> DeliveryReport:
        """Records what changed and calls the sinks."""
        with self._lock:
            now_ms = self._now_ms()
            report = self._sent(now_ms)
            self.store.put_delivery(report, self.ledger.history, at_ms=now_ms)
            return report

    def settle(self, then: Callable[[], None]) -> None:
        """Waits for the calls to sinks that are in progress and records their outcome; then calls `then`.

        No call begins in between: what `then` does may let another job notify.
        """
        with self._lock:
            if self._delivery is not None:
                self._delivery.settle(self._now_ms())
            then()

    def _now_ms(self) -> Millis:
        return wall_ms() if self._clock is None else self._clock()

    def _begin(self) -> Dispatcher:
        """This job begins to notify."""
        if self._job is not None:
            self._job.begin(self.ledger.firing())
        self._newest_delivery = Dispatcher(
            self.ledger, self._sinks, deadline_s=self._deadline_s, patience_s=self._patience_s
        )
        return self._newest_delivery

    def _sent(self, now_ms: Millis) -> DeliveryReport:
        try:
            if self.role.is_active:
                return self._reconciled(now_ms)
        except LeaseLostError as problem:
            log.warning("%s", problem)
        except UnavailableStoreError as problem:
            if not self._store_failed:
                log.warning("%s; alerts wait for it, nothing is lost", problem)
            self._store_failed = True
            return _NOTHING
        if self.role.is_standby:
            self._stand_by()
        return _NOTHING

    def _reconciled(self, now_ms: Millis) -> DeliveryReport:
        delivery = self._delivery
        if self._store_failed or delivery is None:
            self._changed = None
            self.ledger.refresh()
        if delivery is None:
            delivery = self._delivery = self._begin()
        recorded = self.ledger.reconcile(self._due(now_ms), now_ms)
        holds = () if self._holds is None else self._holds(now_ms)
        if self._job is not None:
            # Before anything is sent: people are notified of a host that is cut off, and not of each cluster.
            recorded += self.ledger.reconcile(self._of_job(self._job), now_ms)
            holds = [*holds, *self._job.holds()]
        for known in (self._firing, self._understudy):
            known.update({name: replace(firing, ended=()) for name, firing in known.items() if firing.ended})
        self._changed = set()
        results = delivery.deliver(now_ms, holds)
        self._store_failed = False
        return DeliveryReport(recorded=recorded, sinks=results)

    def _of_job(self, job: JobEvaluation) -> list[Firing]:
        try:
            return [job.evaluate(self.ledger.firing(), self.sink_states)]
        except (MemoryError, KraftwatchError):
            raise
        except Exception as error:  # noqa: BLE001 - alerts about clusters are sent nevertheless
            reason = failure_reason(error)
            if reason != self._job_failure:
                log.error("the job itself is not evaluated; report this as a bug of kraftwatch: %s", reason)  # noqa: TRY400
            self._job_failure = reason
            return []

    def _due(self, now_ms: Millis) -> Iterator[Firing]:
        """Yields what the ledger must agree with: what fires in changed clusters, and that removed ones are over."""
        names = set(self.store.configured)
        for known in (self._firing, self._understudy):
            for cluster in known.keys() - names:
                del known[cluster]
        for cluster in sorted(names if self._changed is None else self._changed & names):
            firing = self._understudy.get(cluster) or self._firing.get(cluster)
            if firing is not None:
                yield firing
        for cluster in {alert.cluster for alert in self.ledger.firing()} - names - {JOB_CLUSTER_ID}:
            yield Firing(
                cluster=cluster,
                evaluated_ms=now_ms,
                over=f"Cluster {cluster} was removed from the configuration, and is not monitored.",
            )

    def _stand_by(self) -> None:
        self._delivery = None
        for known in (self._firing, self._understudy):
            known.update({name: firing.since(_UNRECORDED_MS) for name, firing in known.items() if firing.ended})
        if time.monotonic() >= self._refresh_at:
            # For the page of this job.
            self._refresh_at = time.monotonic() + _REFRESH_S
            with suppress(UnavailableStoreError):
                self.ledger.refresh()
