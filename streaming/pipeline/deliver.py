"""foreachBatch: passes the step's output to the ledger, the sinks and the quarantine. Runs on the driver.

Idempotent by the alert's own key, never by batch id: a new checkpoint starts again at batch 0. A batch that was
delivered before still runs its plan, because Spark fails a batch whose stateful plan did not run.
"""

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from pyspark.sql import DataFrame, Row

from connectors.delivery.delivery_report import DeliveryReport
from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.errors import LeaseLostError, StoreError, UnavailableStoreError
from connectors.sinks.sink import Sink
from connectors.store.alert_codec import ALERT, ALERTS
from connectors.store.collection import Collection
from connectors.wall_clock import wall_ms
from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.notifications.route import JOB_CLUSTER_ID
from streaming.metrics.batch_stats import DeliveredBatch
from streaming.pipeline.active_role import ActiveRole
from streaming.pipeline.early_alerts import continued
from streaming.pipeline.ledger_differences import LedgerDifferences
from streaming.pipeline.output_rows import TOPIC, WAITING_ROWS, OutputKind
from streaming.replay.cluster_monitor import WaitingRows
from streaming.replay.contract_violations import failure_reason
from streaming.status.cluster_status import ClusterStatus, from_json
from streaming.status.status_store import StatusStore

log = logging.getLogger(__name__)

_RETRY_S: Final = 1.0
_REFRESH_S: Final = 10.0
_UNRECORDED_S: Final = 60.0
"""How long a standby job keeps its transitions: the active one may end before it has recorded the same. Longer than a
takeover."""
_T = TypeVar("_T")


class Deliver:
    """The function that Spark calls with each micro-batch of the step's output rows."""

    def __init__(
        self,
        open_delivery: Callable[[], Dispatcher],
        ledger: Ledger,
        quarantine: Collection[dict[str, Any]],
        *,
        store: StatusStore,
        request_poll: Callable[[str, Millis | None, Millis], None],
        on_batch: Callable[[DeliveredBatch], None] = lambda _: None,
        wait: Callable[[float], bool] | None = None,
        role: ActiveRole | None = None,
    ) -> None:
        """Opens the delivery, unless another job may notify.

        `request_poll` takes a cluster, the time in ms at which a hold or clear time expires, if one does, and the time
        until which its quiet rows may wait. `wait` waits some seconds and returns whether the job stops. `role` is None
        where this job is the only one.
        """
        self._open_delivery, self.ledger, self._quarantine = open_delivery, ledger, quarantine
        self.store, self._request_poll, self._on_batch = store, request_poll, on_batch
        self._wait, self.role = wait or threading.Event().wait, role
        self._refresh_at = 0.0
        self._delivery = self._open_delivery() if self.role is None else None
        """None while another job notifies."""
        self._differences = LedgerDifferences(self._status)
        self._found: list[tuple[float, Alert]] = []
        """A standby's own transitions of the last `_UNRECORDED_S` seconds, with the time at which it found each."""
        self._reported = False
        """A store that does not answer was reported."""
        self._lock = threading.Lock()
        self.last_batch_at: float | None = None
        """When the newest micro-batch was delivered (monotonic seconds): /healthz reads it."""

    @property
    def notifies(self) -> bool:
        """Whether this job records alerts and calls the sinks."""
        return self._delivery is not None and (self.role is None or self.role.is_active)

    def set_sinks(self, sinks: Sequence[Sink]) -> None:
        """Replaces the sinks of a delivery that is open; raises UsageError if two have the same name."""
        with self._lock:
            if self._delivery is not None:
                self._delivery.set_sinks(sinks)

    @contextmanager
    def between_batches(self) -> Iterator[None]:
        """Blocks delivery while entered, so that the dispatcher can be changed."""
        with self._lock:
            yield

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Delivers one batch. Errors are raised to Spark: swallowing one would commit the batch."""
        began = time.monotonic()
        rows = frame.collect()
        with self._lock:
            self._deliver(rows, began)

    def send(self, alerts: Sequence[Alert]) -> None:
        """Delivers alerts that are not the step's between two batches, and what is pending."""
        with self._lock:
            self._send(alerts, wall_ms())

    def settle(self, then: Callable[[], None]) -> None:
        """Waits for the calls to sinks that are in progress and records their outcome; then calls `then`.

        No call begins in between: what `then` does may let another job notify.
        """
        with self._lock:
            if self._delivery is not None:
                self._delivery.settle(wall_ms())
            then()

    def _send(self, alerts: Sequence[Alert], now_ms: Millis) -> DeliveryReport:
        report = self._sent(alerts, now_ms) if self.role is None else self._sent_as(self.role, alerts, now_ms)
        self.store.put_delivery(report, self.ledger.history, at_ms=now_ms)
        return report

    def _sent_as(self, role: ActiveRole, alerts: Sequence[Alert], now_ms: Millis) -> DeliveryReport:
        """Records and sends alerts; a standby keeps them, and a job that cannot ask the store waits for it."""
        nothing = DeliveryReport(recorded=1, sinks={})
        while True:
            try:
                if role.is_active:
                    report = self._sent([*(alert for _, alert in self._found), *alerts], now_ms)
                    self._found = []
                    return report
            except LeaseLostError as problem:
                log.warning("%s", problem)
            if role.is_standby:
                self._keep(alerts)
                return nothing
            if not alerts:
                return nothing
            self._report_waiting("the store does not answer")
            if self._wait(_RETRY_S):
                raise StoreError("the job stops before its newest alerts are in the store")

    def _keep(self, alerts: Sequence[Alert]) -> None:
        now = time.monotonic()
        self._delivery = None
        # The other job reports on itself; what this one has found of itself is found again when it notifies.
        found = [(now, each) for each in alerts if each.cluster_id != JOB_CLUSTER_ID]
        self._found = [*(one for one in self._found if now - one[0] < _UNRECORDED_S), *found]
        if now >= self._refresh_at:
            # For the page of this job.
            self._refresh_at = now + _REFRESH_S
            with suppress(UnavailableStoreError):
                self.ledger.refresh()

    def _opened(self) -> Dispatcher:
        self.ledger.refresh()
        self._differences.restart_holds()
        return self._open_delivery()

    def _sent(self, alerts: Sequence[Alert], now_ms: Millis) -> DeliveryReport:
        delivery = self._delivery
        if delivery is None:
            delivery = self._delivery = self._stored(self._opened)
        if self.role is None:
            return self._stored(lambda: delivery.deliver(continued(alerts, self.ledger.newest), now_ms=now_ms))
        return self._stored(lambda: delivery.deliver(self._changes(alerts, now_ms), now_ms=now_ms))

    def _changes(self, alerts: Sequence[Alert], now_ms: Millis) -> Sequence[Alert]:
        """Returns the transitions to record in a ledger that another job may have written: it may have the same
        alerts with another beginning."""
        own = continued(alerts, self.ledger.newest, every_rule=True)
        return [*own, *self._differences.due(self.ledger, now_ms, besides={one.fingerprint for one in alerts})]

    def _status(self, cluster: str) -> ClusterStatus | None:
        received = self.store.newest(cluster)
        return None if received is None else received.status

    def _stored(self, write: Callable[[], _T]) -> _T:
        """Repeats a write until the server of the store answers; no batch is committed before."""
        failed = False
        while True:
            try:
                if failed:
                    # The write whose answer was lost may have taken effect.
                    self.ledger.refresh()
                done = write()
            except UnavailableStoreError as problem:
                self._report_waiting(problem)
                failed = True
                if self._wait(_RETRY_S):
                    raise
            else:
                self._reported = False
                return done

    def _report_waiting(self, problem: UnavailableStoreError | str) -> None:
        if not self._reported:
            log.warning("%s; batches wait for it, nothing is lost", problem)
        self._reported = True

    def _deliver(self, rows: Sequence[Row], began: float) -> None:
        now_ms = wall_ms()
        quarantined: Counter[str] = Counter()
        bad: dict[str, Any] = {}
        refused: list[str] = []
        waiting: dict[str, WaitingRows] = {}
        statuses: list[ClusterStatus] = []
        alerts: list[Alert] = []
        for row in rows:
            if row.kind == OutputKind.QUARANTINE:
                quarantined[row.cluster] += 1
                bad[f"{row.cluster}-{row.name}"] = json.loads(row.body)
                if row.cluster.startswith(TOPIC):
                    refused.append(row.body)
                continue
            with _contained(row):
                if row.kind == OutputKind.EVALUATED:
                    self.store.put_evaluation(row.cluster, at_ms=now_ms)
                    self._request_poll(row.cluster, *json.loads(row.body))
                elif row.kind == OutputKind.STATUS:
                    status = from_json(row.body)
                    self.store.put_status(status, at_ms=now_ms)
                    statuses.append(status)
                elif row.kind == OutputKind.WAITING:
                    waiting[row.cluster] = WAITING_ROWS.validate_json(row.body)
                elif row.kind == OutputKind.ALERT:
                    alerts.append(ALERT.validate_json(row.body))
                    self._differences.changed(alerts[-1])
                elif row.kind == OutputKind.FIRING:
                    self._differences.restored(row.cluster, ALERTS.validate_json(row.body))
        report = self._send(alerts, now_ms)
        # Not before: in this batch the job may have begun to notify.
        if self.notifies:
            self._stored(lambda: self._quarantine.put(bad))
        self.last_batch_at = time.monotonic()
        took_s = self.last_batch_at - began
        self._on_batch(
            DeliveredBatch(
                took_s=took_s,
                statuses=statuses,
                quarantined=quarantined,
                report=report,
                refused=refused,
                waiting=waiting,
            )
        )


@contextmanager
def _contained(row: Row) -> Iterator[None]:
    """Logs an error that concerns one cluster's row: raised to Spark, it would end the query for all clusters."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the other clusters' rows are delivered
        log.error(  # noqa: TRY400 - the exception's message may quote the row
            "a row of kind %s of cluster %s cannot be delivered and is skipped; report this as a bug of kraftwatch: %s",
            row.kind,
            row.cluster,
            failure_reason(error),
        )
