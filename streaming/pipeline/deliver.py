"""foreachBatch: the step's output to the ledger, the sinks and the quarantine. Runs on the driver.

Idempotent by the alert's own key, never by batch id: a new checkpoint begins again at batch 0. A batch that
was delivered before still runs its plan, because Spark refuses a batch whose stateful plan did not run.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pyspark.sql import DataFrame, Row

from connectors.delivery.dispatcher import Dispatcher
from rules.alert import Alert
from rules.model.identifiers import Millis
from streaming.metrics.batch_stats import DeliveredBatch
from streaming.status.status_store import StatusStore

ALERT: TypeAdapter[Alert] = TypeAdapter(Alert)
"""An Alert's JSON form between the step and here."""

ALERT_KIND = "alert"
QUARANTINE_KIND = "quarantine"
DUE_KIND = "due"
PORTRAIT_KIND = "portrait"

RequestPoll = Callable[[str, Millis], None]
"""Requests a poll of a cluster at a time in ms: a hold or clear time expires then."""


class Quarantine:
    """A folder with one small JSON file for each thing that did not decode: where it stood, and why.

    The bytes themselves stay in the journal. A re-run batch writes the same names again. At most `keep`
    files are held: the count in the quorum's state goes on.
    """

    def __init__(self, folder: Path, *, keep: int = 10_000) -> None:
        """`folder` is made at the first bad record."""
        self._folder = folder
        self._keep = keep
        self._held: set[str] | None = None
        """The names of the files, once they were looked at: bad records may come by the hundred thousand."""

    def put(self, name: str, body: str) -> None:
        """Keep one bad record's description under its own name."""
        if self._held is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._held = {path.name for path in self._folder.iterdir()}
        path = self._folder / f"{name}.json"
        if path.name not in self._held and len(self._held) >= self._keep:
            return
        path.write_text(body + "\n", encoding="utf-8")
        self._held.add(path.name)


class Deliver:
    """The function that Spark calls with each micro-batch of the step's output."""

    def __init__(
        self,
        delivery: Dispatcher,
        quarantine: Quarantine,
        *,
        fleet: StatusStore,
        request_poll: RequestPoll,
        history: Callable[[], Sequence[Alert]] = tuple,
        on_batch: Callable[[DeliveredBatch], None] = lambda _: None,
    ) -> None:
        """`delivery` owns the ledger, whose `history` it is, and the sinks; `fleet` is shown how all is.

        `on_batch` is called after each batch.
        """
        self._delivery = delivery
        self._quarantine = quarantine
        self._fleet = fleet
        self._request_poll = request_poll
        self._history = history
        self._on_batch = on_batch
        self._lock = threading.Lock()
        self.last_batch_at: float | None = None
        """When the newest micro-batch was told (monotonic seconds): what /healthz looks at."""

    @contextmanager
    def between_batches(self) -> Iterator[None]:
        """While it is entered no batch is told: what telling goes by may be changed."""
        with self._lock:
            yield

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Tell what the batch says. Errors are Spark's to see: swallowing one would commit the batch."""
        began = time.monotonic()
        rows = frame.collect()
        with self._lock:
            self._tell(rows, began)

    def _tell(self, rows: Sequence[Row], began: float) -> None:
        now_ms = Millis(round(time.time() * 1000))
        quarantined: Counter[str] = Counter()
        portraits: dict[str, dict[str, Any]] = {}
        for row in rows:
            if row.kind == QUARANTINE_KIND:
                quarantined[row.cluster] += 1
                self._quarantine.put(f"{row.cluster}-{row.name}", row.body)
            elif row.kind == DUE_KIND:
                self._request_poll(row.cluster, Millis(int(row.body)))
            elif row.kind == PORTRAIT_KIND:
                portraits[row.cluster] = json.loads(row.body)
                self._fleet.show(row.cluster, portraits[row.cluster], at_ms=now_ms)
        report = self._delivery.deliver(_alerts(rows), now_ms=now_ms)
        self._fleet.tell(report, self._history, at_ms=now_ms)
        self.last_batch_at = time.monotonic()
        took_s = self.last_batch_at - began
        self._on_batch(DeliveredBatch(took_s=took_s, portraits=portraits, quarantined=quarantined, report=report))


def _alerts(rows: Iterable[Row]) -> Sequence[Alert]:
    return [ALERT.validate_json(row.body) for row in rows if row.kind == ALERT_KIND]
