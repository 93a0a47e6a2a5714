"""What executors add: 1,000 quiet clusters on a standalone Spark cluster with 1, 2 and 4 executors of one core.

The rows are in the journal before, and the job's query reads them as a job that is behind does: in its largest batches,
with one partition of the state for each executor. Counted is the CPU time of driver, planner, executors and Python
workers, so that other work on the machine matters little.
"""

import multiprocessing
import os
import tempfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import psutil
from pyspark.sql import DataFrame

from connectors.store.journal_writer import JournalWriter
from streaming.config.root import SHUFFLE_PARTITIONS
from streaming.pipeline import query
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.cluster_processor import ClusterProcessor
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.source import ROWS_PER_BATCH
from streaming.pipeline.spark.spark_session import start_spark
from tests.bench.job_cost import cpu_s, processes_of
from tests.job.spark_cluster import standalone_cluster
from tests.unit.streaming.pipeline.quiet_cluster import cluster_names, quiet_second, settings_of

CLUSTERS = 1_000
EXECUTORS = (1, 2, 4)
_WARM_UP, _MEASURED = 40, 6
"""Batches."""
_ROLES = {
    "CoarseGrainedExecutorBackend": "executors",
    "pyspark.daemon": "Python workers",
    "python_streaming_source_runner": "planner",
    "org.apache.spark.deploy.SparkSubmit": "driver's Java",
}
"""A part of the command line of each process, and what it is called. Spark's master and workers do not count."""


def figures(clusters: int = CLUSTERS) -> dict[str, Any]:
    """Returns the cluster-seconds of a CPU second by number of executors, also in relation to one executor."""
    found: dict[str, Any] = {}
    for executors in EXECUTORS:
        # Each has a driver of its own.
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            found[f"{executors} executors"] = pool.submit(measured, clusters, executors).result()
    first = found[f"{EXECUTORS[0]} executors"]["cluster_seconds_per_cpu_second"]
    for one in found.values():
        one["of_one_executor"] = round(one["cluster_seconds_per_cpu_second"] / first, 2)
    return found


def measured(clusters: int, executors: int) -> dict[str, Any]:
    """Returns the figures of one number of executors."""
    names = cluster_names(clusters)
    with tempfile.TemporaryDirectory(prefix="kraftwatch-executors-", ignore_cleanup_errors=True) as folder:
        checkpoint = Checkpoint(folder=Path(folder) / "checkpoint")
        seconds_of_batch = ROWS_PER_BATCH / write_rows(checkpoint, names)
        with standalone_cluster(Path(folder) / "spark", workers=executors) as master:
            settings = {SHUFFLE_PARTITIONS: str(executors), "spark.executor.memory": "700m"}
            spark = start_spark(master=master, logs=checkpoint.logs, settings=settings)
            collector = CostCollector()
            processor = ClusterProcessor({name: settings_of(name) for name in names}, spark_folder=checkpoint.pages)
            running = query.start(spark, checkpoint, processor, cast(Deliver, collector), None)
            while len(collector.costs) < _WARM_UP + _MEASURED:
                running.awaitTermination(1)
            running.stop()
            spark.stop()
    before, after = collector.costs[_WARM_UP - 1], collector.costs[_WARM_UP + _MEASURED - 1]
    spent = {role: after[role] - before[role] for role in after}
    cluster_seconds = clusters * seconds_of_batch * _MEASURED
    return {
        "cluster_seconds_per_cpu_second": round(cluster_seconds / sum(spent.values())),
        **{f"{role}, ms a cluster-second": round(1_000 * cpu / cluster_seconds, 3) for role, cpu in spent.items()},
    }


def write_rows(checkpoint: Checkpoint, names: list[str]) -> int:
    """Writes the rows of all batches into the journal; returns the rows of a second."""
    checkpoint.folder.mkdir()
    with JournalWriter(checkpoint.journal) as journal:
        second, written, rows = 0, 0, []
        while written < (_WARM_UP + _MEASURED) * ROWS_PER_BATCH:
            rows = [row for name in names for row in quiet_second(name, second)]
            journal.append(rows)
            journal.publish()
            second, written = second + 1, written + len(rows)
    return len(rows)


class CostCollector:
    """foreachBatch: collects the rows, and notes the CPU seconds of each role so far."""

    def __init__(self) -> None:
        self.costs: list[Mapping[str, float]] = []

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Runs the batch."""
        frame.collect()
        self.costs.append(costs())


def costs() -> Mapping[str, float]:
    """Returns the CPU seconds of the job's processes by role, including ended children."""
    found = dict.fromkeys(("driver", *_ROLES.values()), 0.0)
    for process, role in processes_of(os.getpid(), _ROLES).items():
        with suppress(psutil.NoSuchProcess):
            if role in found:
                found[role] += cpu_s(process)
    return found
