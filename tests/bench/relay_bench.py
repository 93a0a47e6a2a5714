"""Measures a backlog of the relay: `python -m tests.bench.relay_bench [CLUSTERS [SECONDS]]`. Asserts nothing.

The rows of an hour are written to a real topic, as a relay does, and then read by the job's query: seconds of the
backlog for each second of work, the batches, and the largest one.
"""

import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.journal.reader import JournalReader
from connectors.journal.writer import JournalWriter
from connectors.observation import Observation
from connectors.relay.forwarder import Forwarder
from connectors.relay.relay_message import Baseline, RelayMessage
from connectors.relay.relay_positions import with_clusters
from connectors.settings import TopicConnection
from connectors.store.collection import quarantine_of
from connectors.store.tables import job_database
from deploy.lab.lab import Lab
from deploy.lab.spark_jars import spark_kafka_jars
from rules.model.monitoring import Vantage
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.kafka_source import RelayedCluster, TopicSource, kafka_settings
from streaming.pipeline.query import Query
from streaming.pipeline.spark_session import start_spark
from streaming.pipeline.step import Step
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.status_store import StatusStore
from tests.bench.backlog_rows import backlog, recorded_rows

CONSOLE = Console(highlight=False, soft_wrap=True)
ROWS_PER_BATCH = 5_000
"""The default of `relay.rows_per_batch`."""


def main(arguments: Sequence[str]) -> int:
    """Measures and prints the figures."""
    clusters, seconds = (int(each) for each in (*arguments, *("1", "3600")[len(arguments) :]))
    CONSOLE.print_json(data=figures(clusters, seconds))
    return 0


def figures(clusters: int = 1, seconds: int = 3_600) -> dict[str, Any]:
    """Returns the rates of writing a backlog to the topic and of reading it."""
    names = [f"cluster-{number}" for number in range(clusters)]
    with tempfile.TemporaryDirectory(prefix="kraftwatch-bench-", ignore_cleanup_errors=True) as folder_name:
        folder = Path(folder_name)
        with (
            Lab(folder / "lab", brokers=0) as lab,
            Lab(folder / "topic-lab", controllers=0, combined=1, brokers=0) as topic_lab,
        ):
            recorded = recorded_rows(lab, folder / "gather")
            for node in lab.controllers:
                lab.stop(node)
            topic = TopicConnection(bootstrap=tuple(topic_lab.broker_bootstrap), topic="backlog", create=True)
            # In the past: rows whose times the topic has not reached are refused.
            rows = [
                replace(row, observed_at_ms=row.observed_at_ms - seconds * 1_000) for row in backlog(recorded, seconds)
            ]
            baselines, written = _write(folder / "journal", topic, names, rows, cluster_id=lab.cluster_id)
            read = _read(folder, topic, baselines, cluster_id=lab.cluster_id, seconds=seconds, last=rows[-1])
    return {"clusters": clusters, "seconds": seconds, "rows": clusters * len(rows)} | written | read


def _write(
    journal: Path, topic: TopicConnection, names: Sequence[str], rows: Sequence[Observation], *, cluster_id: str
) -> tuple[dict[str, int], dict[str, float]]:
    """Forwards the rows of all clusters; returns the clusters' baselines, and the rates."""
    numberings = with_clusters({}, names, end=0, now_ms=rows[0].observed_at_ms)
    with JournalWriter(journal) as writer:
        for row in rows:
            writer.append([replace(row, cluster=name) for name in names])
        writer.publish()

        def message(row: Observation) -> RelayMessage:
            sequence, baseline = numberings[row.cluster].numbered(row.sequence) or (0, Baseline(sequence=0, at_ms=0))
            return RelayMessage(observation=replace(row, sequence=sequence), cluster_id=cluster_id, baseline=baseline)

        began = time.monotonic()
        forwarder = Forwarder(JournalReader(journal), topic, message)
        while forwarder.waiting_rows:
            forwarder.forward(1)
        took_s = time.monotonic() - began
        forwarder.close(1)
    sent = forwarder.counts
    rates = {
        "written_rows_per_s": round(sent.rows / took_s),
        "written_mb_per_s": round(sent.payload_bytes / took_s / 1e6, 2),
        "payload_bytes_per_cluster_second": round(sent.payload_bytes * 1_000 / len(names) / _milliseconds(rows)),
        "rows_per_cluster_second": round(1_000 * len(rows) / _milliseconds(rows), 2),
    }
    return {name: one.baselines[0].baseline.sequence for name, one in numberings.items()}, rates


def _milliseconds(rows: Sequence[Observation]) -> int:
    return rows[-1].observed_at_ms - rows[0].observed_at_ms


def _read(
    folder: Path, topic: TopicConnection, baselines: dict[str, int], *, cluster_id: str, seconds: int, last: Observation
) -> dict[str, float]:
    checkpoint = Checkpoint(folder=folder / str(uuid.uuid4()))
    checkpoint.folder.mkdir()
    store = StatusStore(list(baselines))
    ledger = Ledger(checkpoint.ledger)
    batch_s: list[float] = []
    deliver = Deliver(
        Dispatcher(ledger, []),
        quarantine_of(job_database(checkpoint.folder)),
        store=store,
        request_poll=lambda *_: None,
        on_batch=lambda batch: batch_s.append(batch.took_s),
    )
    settings = ClusterSettings(name="prod", cluster_id=cluster_id, bootstrap=("c:1",), vantage=Vantage.INSIDE)
    spark = start_spark(master="local[2]", logs=checkpoint.logs, settings=kafka_settings(spark_kafka_jars(), {}))
    source = TopicSource(
        connection=topic,
        rows_per_batch=ROWS_PER_BATCH,
        starting_offsets={topic.topic: dict.fromkeys(range(4), 0)},
        clusters={
            name: RelayedCluster(topic=topic.topic, cluster_id=cluster_id, baseline=baseline)
            for name, baseline in baselines.items()
        },
    )
    query = Query(spark, checkpoint, deliver, source)
    began = time.monotonic()
    query.start(Step({name: replace(settings, name=name) for name in baselines}))
    while not all(_reached(store, name, last.observed_at_ms) for name in baselines):
        query.wait(1)
    took_s = time.monotonic() - began
    query.stop()
    spark.stop()
    ledger.close()
    return {
        "read_s": round(took_s, 1),
        "times_real_time": round(seconds / took_s),
        "batches": len(batch_s),
        "slowest_delivery_s": round(max(batch_s, default=0.0), 2),
    }


def _reached(store: StatusStore, name: str, at_ms: int) -> bool:
    newest = store.newest(name)
    return newest is not None and newest.status.now_ms >= at_ms


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
