"""Measures what a batch of the pipeline costs by clusters and partitions: Spark alone, from rows written beforehand.

`python -m tests.bench.fleet_partitions_bench [--clusters 10,100] [--partitions 1,2,4,16]`. Prints numbers and asserts
nothing. The CPU is that of all of Spark's processes; a batch holds one second of rows of each cluster.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from connectors.event import to_json
from connectors.journal.writer import JournalWriter
from connectors.observation import Observation, ObservationKind
from rules.evaluate import thresholds_for
from rules.model.monitoring import Vantage
from streaming.config.root import PipelineSection
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.query import start
from streaming.pipeline.spark_session import start_spark
from streaming.pipeline.step import Step
from streaming.replay.cluster_settings import ClusterSettings
from tests.spark.test_pipeline import BOOTSTRAP, START_MS, poll_with_leader

_WARM_UP, _MEASURED = 3, 10


class BatchCounter:
    """The sink: takes the rows and notes the number of the batch."""

    def __init__(self) -> None:
        self.newest = -1

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Runs the batch."""
        frame.collect()
        self.newest = batch_id


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description="The cost of a batch by clusters and partitions.")
    parser.add_argument("--clusters", default="1,100")
    parser.add_argument("--partitions", default="1,2,4,16")
    options = parser.parse_args(arguments)
    console = Console(highlight=False)
    console.print(f"{psutil.cpu_count()} cores, load {psutil.getloadavg()[0]:.1f}, local[2]")
    console.print(
        "| clusters | partitions | CPU ms a batch | time of a batch, median ms | files a batch |\n|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory(prefix="kraftwatch-partitions-", ignore_cleanup_errors=True) as folder:
        spark = start_spark(master="local[2]", logs=Path(folder) / "log", settings={})
        for clusters in map(int, options.clusters.split(",")):
            for partitions in map(int, options.partitions.split(",")):
                cost = measure(spark, Path(folder) / f"{clusters}-{partitions}", clusters, partitions)
                console.print(f"| {clusters:,} | {partitions} | {' | '.join(cost)} |")
        spark.stop()
    return 0


def measure(spark: SparkSession, folder: Path, clusters: int, partitions: int) -> tuple[str, str, str]:
    """Returns CPU milliseconds and median duration of a batch, and the files that it adds to the checkpoint."""
    checkpoint = Checkpoint(folder=folder)
    for key, value in PipelineSection(partitions=partitions).spark_settings().items():
        spark.conf.set(key, value)
    names = [f"c{number:04d}" for number in range(clusters)]
    settings = ClusterSettings(
        name="", cluster_id="id", bootstrap=BOOTSTRAP, vantage=Vantage.INSIDE, thresholds=thresholds_for({})
    )
    sink = BatchCounter()
    payload = to_json(poll_with_leader())
    with JournalWriter(checkpoint.journal) as writer:
        query = start(spark, checkpoint, Step({name: replace(settings, name=name) for name in names}), sink, None)  # type: ignore[arg-type]
        durations: list[float] = []
        before, files_before = 0.0, 0
        for second in range(_WARM_UP + _MEASURED):
            if second == _WARM_UP:
                before, files_before = _cpu_s(), _files(checkpoint.spark)
            newest, began = sink.newest, time.monotonic()
            writer.append(
                [
                    Observation(
                        cluster=name,
                        kind=ObservationKind.QUORUM,
                        observed_at_ms=START_MS + 1000 * second,
                        payload=payload,
                    )
                    for name in names
                ]
            )
            writer.publish()
            while sink.newest == newest:
                assert query.isActive, query.exception()
                time.sleep(0.005)
            durations.append(time.monotonic() - began)
        spent, added = _cpu_s() - before, _files(checkpoint.spark) - files_before
        query.stop()
    median = sorted(durations[_WARM_UP:])[_MEASURED // 2]
    return f"{spent / _MEASURED * 1000:.0f}", f"{median * 1000:.0f}", f"{added / _MEASURED:.1f}"


def _cpu_s() -> float:
    """Returns the CPU seconds of this process's children: Java and its Python workers."""
    total = 0.0
    for process in psutil.Process(os.getpid()).children(recursive=True):
        # Spark forks short-lived processes; their time is the parent's once they have ended.
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def _files(folder: Path) -> int:
    return sum(1 for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    sys.exit(main())
