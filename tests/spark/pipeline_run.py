"""The pipeline of a test on a real Spark: a journal that the test writes to, and the job's query on its rows."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from connectors.delivery.ledger import Ledger
from connectors.observations.observation import (
    Observation,
    ObservationKind,
    to_json,
)
from connectors.sinks.jsonl import JsonlSink
from connectors.sinks.sink import Sink
from connectors.store.collection import quarantine_of
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import job_database
from rules.evaluate import thresholds_for
from rules.model.identifiers import Millis
from rules.model.monitoring import ObservationSource, Reason, Vantage
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.cluster_processor import ClusterProcessor
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.initial_state import initial_state
from streaming.pipeline.notifying import Notifying
from streaming.pipeline.output_rows import EvaluationTimes
from streaming.pipeline.query import Query
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.status_store import Engine, StatusStore
from tests.eventually import eventually
from tests.scripts.log_script import failed, poll, replica

START_MS = 1_800_000_000_000
BOOTSTRAP = ("c1:9093", "c2:9093", "c3:9093")
THRESHOLDS = thresholds_for({"data-contract-broken.stands": 10})
PROD = ("prod",)
WEEK_S = 7 * 86_400


def settings_of(name: str) -> ClusterSettings:
    return ClusterSettings(
        name=name, cluster_id=f"id-of-{name}", bootstrap=BOOTSTRAP, vantage=Vantage.INSIDE, thresholds=THRESHOLDS
    )


NO_LEADER = [failed(Reason.NO_LEADER, place, ObservationSource.QUORUM) for place in BOOTSTRAP]


class PipelineRun:
    """One run of the pipeline; another one in the same folder continues it, as after a restart."""

    def __init__(
        self, spark: SparkSession, folder: Path, names: Sequence[str] = PROD, *, keep_s: float = WEEK_S
    ) -> None:
        """`keep_s`: the retention of the journal."""
        self.folder = folder
        self.checkpoint = Checkpoint(folder=folder / "checkpoint")
        self.spark = spark
        self.settings = {name: settings_of(name) for name in names}
        """Those of the next start."""
        self.query: Query | None = None
        self.requested_polls: list[tuple[str, int]] = []
        self.store = StatusStore(names)
        self.writer = JournalWriter(self.checkpoint.journal, keep_s=keep_s)
        self.writer.__enter__()
        rows = JournalReader(self.checkpoint.journal)
        times = [row.observed_at_ms for row in rows.read(rows.first_sequence(), rows.published_end())]
        self.now_ms = max(times, default=START_MS - 1_000) + 1_000

    def start(self, *more: Sink, patience_s: float = 1.0) -> None:
        """`patience_s`: how long a batch waits for its sinks."""
        database = job_database(self.checkpoint.folder)
        self.ledger = ledger = Ledger(database)
        # After a shorter deadline a busy machine would send an alert again: the sink would get it twice.
        sinks = [JsonlSink(self.folder / "alerts.jsonl"), *more]
        notifying = Notifying(ledger, sinks, store=self.store, deadline_s=120, patience_s=patience_s)
        deliver = Deliver(
            notifying,
            quarantine_of(database),
            store=self.store,
            gatherer=self,
            journal=JournalReader(self.checkpoint.journal),
        )
        self.query = Query(self.checkpoint, deliver)
        initial = initial_state(ledger.firing(), ledger.history(), now_ms=Millis(self.now_ms)).encoded(self.settings)
        self.query.start(
            self.spark,
            ClusterProcessor(self.settings, initial=initial, spark_folder=self.checkpoint.pages, snapshots=True),
        )

    def request_polls(self, requests: Mapping[str, EvaluationTimes], by: Engine) -> None:
        due = {cluster: times.due_ms for cluster, times in requests.items()}
        self.requested_polls += [(cluster, due_ms) for cluster, due_ms in due.items() if due_ms is not None]

    def limit_log(self, cluster: str, waiting_bytes: int) -> None:
        """Limits nothing: the test writes the rows."""

    def stop(self) -> None:
        """Stops the query; rows can still be written."""
        if self.query is not None:
            self.query.stop()
            self.query = None

    def close(self) -> None:
        self.stop()
        self.writer.__exit__(None, None, None)

    def write(self, *rows: Observation, seconds: float = 1) -> None:
        """Writes rows, publishes them, and moves the time on."""
        self.writer.append(rows)
        self.writer.publish()
        self.now_ms += round(seconds * 1000)

    def row(self, kind: ObservationKind, payload: bytes, name: str = "prod", **changed: Any) -> Observation:
        return Observation(cluster=name, kind=kind, observed_at_ms=self.now_ms, payload=payload, **changed)

    def lose_the_leader(self, *names: str, times: int = 1, seconds: float = 1) -> None:
        """Writes that no controller of `prod`, or of these clusters, knows a leader."""
        for _ in range(times):
            rows = [
                self.row(ObservationKind.FAILED, to_json(each), name) for name in names or PROD for each in NO_LEADER
            ]
            self.write(*rows, seconds=seconds)

    def have_a_leader(self, *names: str, times: int = 1, seconds: float = 1) -> None:
        for _ in range(times):
            voter = replica("1", 9, fetch=None, caught_up=None)
            polls = {name: poll(voter, hw=9, cluster_id=f"id-of-{name}", nodes={}) for name in names or PROD}
            rows = [self.row(ObservationKind.QUORUM, to_json(each), name) for name, each in polls.items()]
            self.write(*rows, seconds=seconds)

    def wait_until_committed(self) -> None:
        """Waits until all published rows are evaluated in committed batches."""

        def committed() -> None:
            assert self.query is not None
            self.query.wait(1)
            files = self.checkpoint.spark_files
            end = files.planned_end(files.commits[-1]) if files.commits else None
            assert end is not None
            assert end.sequence == self.writer.published_end

        eventually(committed, within_s=60)

    def batch(self, write: Callable[[], None]) -> None:
        """Writes, and waits until the rows are evaluated in a committed batch."""
        write()
        self.wait_until_committed()

    def alerts(self, name: str = "prod") -> list[dict[str, Any]]:
        """Returns the alerts about a cluster in the jsonl file, also those of former runs."""
        path = self.folder / "alerts.jsonl"
        # The last line may be half written.
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [line for line in map(json.loads, lines) if line["cluster"] == name]

    def transitions(self, name: str = "prod") -> list[tuple[str, str]]:
        return [(line["rule"], line["state"]) for line in self.alerts(name)]

    def wait_for_transitions(self, *expected: tuple[str, str]) -> None:
        """Waits until these are all alerts about `prod`."""

        def written() -> None:
            assert self.query is not None
            self.query.wait(1)
            assert self.transitions() == list(expected)

        eventually(written, within_s=60)
