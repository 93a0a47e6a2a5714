"""foreachBatch: passes the step's output to the ledger, the sinks and the quarantine. Runs on the driver.

Idempotent by the alert's own key, never by batch id: a new checkpoint starts again at batch 0. A batch that was
delivered before still runs its plan, because Spark fails a batch whose stateful plan did not run.

A row of one cluster that cannot be used is logged and skipped. Only an error of the ledger or the disk ends the batch:
it concerns all clusters.
"""

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, Row

from connectors.delivery.dispatcher import Dispatcher
from connectors.store.alert_codec import ALERT
from connectors.store.collection import Collection
from connectors.wall_clock import wall_ms
from rules.alert import Alert
from rules.model.identifiers import Millis
from streaming.metrics.batch_stats import DeliveredBatch
from streaming.pipeline.early_alerts import continued
from streaming.pipeline.output_rows import TOPIC, OutputKind
from streaming.replay.contract_violations import failure_reason
from streaming.status.cluster_status import ClusterStatus
from streaming.status.status_json import from_json
from streaming.status.status_store import StatusStore

log = logging.getLogger(__name__)

RequestPoll = Callable[[str, Millis], None]
"""Requests a poll of a cluster at a time in ms: a hold or clear time expires then."""


class Deliver:
    """The function that Spark calls with each micro-batch of the step's output rows."""

    def __init__(
        self,
        delivery: Dispatcher,
        quarantine: Collection[dict[str, Any]],
        *,
        store: StatusStore,
        request_poll: RequestPoll,
        history: Callable[[], Sequence[Alert]] = tuple,
        newest: Callable[[str], Alert | None] = lambda _: None,
        on_batch: Callable[[DeliveredBatch], None] = lambda _: None,
    ) -> None:
        """`delivery` owns the ledger and the sinks; `store` receives each status.

        `history` and `newest` are the ledger's: every transition, and the newest with a fingerprint. `on_batch` is
        called after each batch.
        """
        self._delivery = delivery
        self._quarantine = quarantine
        self._store = store
        self._request_poll = request_poll
        self._history = history
        self._newest = newest
        self._on_batch = on_batch
        self._lock = threading.Lock()
        self.last_batch_at: float | None = None
        """When the newest micro-batch was delivered (monotonic seconds): /healthz reads it."""

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
            now_ms = wall_ms()
            report = self._delivery.deliver(continued(alerts, self._newest), now_ms=now_ms)
            self._store.put_delivery(report, self._history, at_ms=now_ms)

    def _deliver(self, rows: Sequence[Row], began: float) -> None:
        now_ms = wall_ms()
        quarantined: Counter[str] = Counter()
        bad: dict[str, Any] = {}
        refused: list[str] = []
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
                if row.kind == OutputKind.DUE:
                    self._request_poll(row.cluster, Millis(int(row.body)))
                elif row.kind == OutputKind.STATUS:
                    status = from_json(row.body)
                    self._store.put_status(status, at_ms=now_ms)
                    statuses.append(status)
                elif row.kind == OutputKind.ALERT:
                    alerts.append(ALERT.validate_json(row.body))
        self._quarantine.put(bad)
        report = self._delivery.deliver(continued(alerts, self._newest), now_ms=now_ms)
        self._store.put_delivery(report, self._history, at_ms=now_ms)
        self.last_batch_at = time.monotonic()
        took_s = self.last_batch_at - began
        self._on_batch(
            DeliveredBatch(took_s=took_s, statuses=statuses, quarantined=quarantined, report=report, refused=refused)
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
