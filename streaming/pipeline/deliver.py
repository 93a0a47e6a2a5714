"""foreachBatch: passes the processor's output to what notifies, to the page and to the quarantine. Runs on the driver.

Idempotent by what the rows say, never by batch id: a new checkpoint starts again at batch 0. A batch that was delivered
before still runs its plan: Spark 4.2.0 ends the query otherwise, STATE_STORE_COMMIT_VALIDATION_FAILED (findings).
"""

import base64
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Protocol

from pyspark.sql import DataFrame

from connectors.errors import JournalError, UnavailableStoreError, UnwritableStoreError
from connectors.process.wall_clock import wall_ms
from connectors.store.alert_codec import FIRING
from connectors.store.collection import MOST_QUARANTINED, Collection
from connectors.store.journal_reader import JournalReader, JournalSnapshot
from rules.formatting import plural
from rules.model.identifiers import Millis
from streaming.metrics.batch_stats import DeliveredBatch, DeliveredEvaluations
from streaming.pipeline.notifying import Notifying
from streaming.pipeline.output_rows import TOPIC, WAITING_ROWS, EvaluationTimes, OutputKind, OutputRow
from streaming.replay.cluster_monitor import WaitingRows
from streaming.replay.contract_violations import failure_reason
from streaming.status.cluster_status import ClusterStatus, from_json
from streaming.status.status_store import Engine, StatusStore

log = logging.getLogger(__name__)

_RETRY_S: Final = 1.0


class PolledGatherer(Protocol):
    """What gathers the rows that are evaluated."""

    def request_polls(self, requests: Mapping[str, EvaluationTimes], by: Engine) -> None:
        """Takes what the evaluations of an engine need next, by cluster."""

    def limit_log(self, cluster: str, waiting_bytes: int) -> None:
        """Takes how many bytes of a cluster's rows wait to be evaluated."""


class Deliver:
    """The function that Spark calls with each micro-batch of the processor's output rows."""

    def __init__(
        self,
        notifying: Notifying,
        quarantine: Collection[dict[str, Any]],
        *,
        store: StatusStore,
        gatherer: PolledGatherer | None = None,
        on_batch: Callable[[DeliveredEvaluations], None] | None = None,
        journal: JournalReader | None = None,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        """Delivers nothing yet.

        `on_batch` is called after each batch, and after each evaluation of the understudy. States are stored in the
        `journal`, if there is one. `wait` waits some seconds and returns whether the job stops.
        """
        self._notifying, self._quarantine = notifying, quarantine
        self.store, self._gatherer, self._on_batch = store, gatherer, on_batch
        self._journal = journal
        self._wait = wait or threading.Event().wait
        self._unwritten: dict[str, Any] = {}
        """Rows for the quarantine that a full disk did not take."""
        self.last_batch_at: float | None = None
        """When the newest micro-batch was delivered (monotonic seconds): /healthz reads it."""
        self.last_evaluated_at: float | None = None
        """When the newest evaluation of any engine was delivered."""

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Delivers one batch. Errors are raised to Spark: swallowing one would commit the batch."""
        began = time.monotonic()
        rows = frame.collect()
        taken = self._taken(rows, Engine.SPARK)
        report = self._notifying.send()
        # Not before: in this batch the job may have begun to notify.
        if taken.bad and self._notifying.notifies:
            self._put_in_quarantine(taken.bad)
        self._store_snapshots(taken.snapshots)
        self.last_batch_at = time.monotonic()
        if self._on_batch is not None:
            self._on_batch(
                DeliveredBatch(
                    took_s=self.last_batch_at - began,
                    statuses=taken.statuses,
                    quarantined=taken.quarantined,
                    report=report,
                    refused=taken.refused,
                    waiting=taken.waiting,
                )
            )

    def take(self, rows: Iterable[OutputRow]) -> Mapping[str, EvaluationTimes]:
        """Delivers what the understudy has made, but for what goes into quarantine, and sends nothing yet.

        Returns which clusters it has evaluated. Spark makes the same entries of the quarantine when it goes on.
        """
        taken = self._taken(rows, Engine.UNDERSTUDY)
        self._store_snapshots(taken.snapshots)
        if self._on_batch is not None:
            self._on_batch(DeliveredEvaluations(statuses=taken.statuses, waiting=taken.waiting))
        return taken.evaluated

    def _taken(self, rows: Iterable[OutputRow], by: Engine) -> "_Taken":
        """Passes each row to the store, to what notifies or to the gatherer; returns the rest."""
        taken, now_ms = _Taken(), wall_ms()
        for kind, cluster, name, body in rows:
            if kind == OutputKind.QUARANTINE:
                taken.quarantined[cluster] += 1
                taken.bad[f"{cluster}-{name}"] = json.loads(body)
                if cluster.startswith(TOPIC):
                    taken.refused.append(body)
                continue
            with _contained(kind, cluster):
                self._take(taken, (kind, cluster, name, body), by, now_ms)
        if self._gatherer is not None:
            self._gatherer.request_polls(taken.evaluated, by)
            for cluster, waiting in taken.waiting.items():
                self._gatherer.limit_log(cluster, waiting.size)
        # The understudy asks for rows again and again, also where none can be read.
        if by is Engine.SPARK or taken.evaluated:
            self.last_evaluated_at = time.monotonic()
        return taken

    def _take(self, taken: "_Taken", row: OutputRow, by: Engine, now_ms: Millis) -> None:
        kind, cluster, name, body = row
        if kind == OutputKind.EVALUATED:
            taken.evaluated[cluster] = EvaluationTimes(*json.loads(body))
            self.store.put_evaluation(cluster, at_ms=now_ms)
        elif kind == OutputKind.STATUS:
            status = from_json(body)
            # Of two engines, the one that counts is ahead.
            if by is self._notifying.engine_of(cluster):
                self.store.put_status(status, at_ms=now_ms)
            taken.statuses.append(status)
        elif kind == OutputKind.WAITING:
            taken.waiting[cluster] = WAITING_ROWS.validate_json(body)
        elif kind == OutputKind.FIRING:
            self._notifying.put(FIRING.validate_json(body), by)
        elif kind == OutputKind.SNAPSHOT:
            taken.snapshots.append(journal_snapshot(cluster, name, body))

    def _store_snapshots(self, snapshots: Sequence[JournalSnapshot]) -> None:
        """Stores them, or logs why not: without a snapshot, a past state takes longer."""
        try:
            if snapshots and self._journal is not None:
                self._journal.keep_snapshots(snapshots)
        except JournalError as problem:
            log.warning("the snapshots of %s are lost: %s", plural(len(snapshots), "cluster"), problem)

    def _put_in_quarantine(self, bad: Mapping[str, Any]) -> None:
        """Repeats the write until the server of the store answers: no batch is committed before.

        What a full disk does not take is written with the next rows: alerts do not wait for it.
        """
        reported = False
        self._unwritten |= bad
        while True:
            try:
                self._quarantine.put(self._unwritten)
            except UnwritableStoreError as problem:
                self._unwritten = dict(islice(self._unwritten.items(), MOST_QUARANTINED))
                log.warning("%s; %s for the quarantine wait for it", problem, plural(len(self._unwritten), "row"))
                return
            except UnavailableStoreError as problem:
                if not reported:
                    log.warning("%s; the batch waits for it: it has rows for the quarantine", problem)
                reported = True
                if self._wait(_RETRY_S):
                    raise
            else:
                self._unwritten = {}
                return


@dataclass(slots=True)
class _Taken:
    """What the rows of a batch say, beyond statuses and alerts, which are passed on at once."""

    quarantined: Counter[str] = field(default_factory=Counter)
    """How many entries of each cluster go into quarantine."""
    bad: dict[str, Any] = field(default_factory=dict)
    """These entries."""
    refused: list[str] = field(default_factory=list)
    """Those of a relay's topic."""
    waiting: dict[str, WaitingRows] = field(default_factory=dict)
    evaluated: dict[str, EvaluationTimes] = field(default_factory=dict)
    statuses: list[ClusterStatus] = field(default_factory=list)
    snapshots: list[JournalSnapshot] = field(default_factory=list)


def journal_snapshot(cluster: str, name: str, body: str) -> JournalSnapshot:
    """Returns the snapshot of a row of this kind."""
    sequence, at_ms = name.split()
    state = base64.b64decode(body)
    return JournalSnapshot(cluster=cluster, sequence=int(sequence), observed_at_ms=int(at_ms), state=state)


@contextmanager
def _contained(kind: str, cluster: str) -> Iterator[None]:
    """Logs an error that concerns one cluster's row: raised to Spark, it would end the query for all clusters."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the other clusters' rows are delivered
        log.error(  # noqa: TRY400 - the exception's message may quote the row
            "a row of kind %s of cluster %s cannot be delivered and is skipped; report this as a bug of kraftwatch: %s",
            kind,
            cluster,
            failure_reason(error),
            extra={"cluster": cluster},
        )
