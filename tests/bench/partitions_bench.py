"""Measures a micro-batch by the size of the metadata: partitions of one cluster, and quiet clusters of one job.

`python -m tests.bench.partitions_bench [--partitions 1000,10000,100000,1000000] [--clusters 1,10,100,1000]`. A batch
holds one second of rows: of one cluster in which 10 partitions change, or of quiet clusters. The stages are measured in
this process, and the whole batch with Spark: from the publication of its rows to their
collection. Asserts nothing.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession

from connectors.observation import Observation
from streaming.pipeline.packed_observations import pack
from streaming.pipeline.spark_session import start_spark
from streaming.pipeline.step import Step
from tests.bench.cluster_second_bench import OneState, beginning, cluster_names, quiet_second, settings_of
from tests.bench.live_batches import children_cpu_s, live_batches, pages_bytes
from tests.bench.partition_rows import second_rows, snapshot_rows
from tests.bench.percentiles import percentiles

PARTITIONS = (1_000, 10_000, 100_000, 1_000_000)
CLUSTERS = (1, 10, 100, 1_000)
_WARM_UP, _MEASURED = 5, 15
_PIECES = 4
"""Pieces of a snapshot in one batch: about 5 MB."""
_NAME = "large"


def figures(partitions: Sequence[int] = PARTITIONS, clusters: Sequence[int] = CLUSTERS) -> dict[str, Any]:
    """Returns figures by number of partitions and by number of clusters; times in ms."""
    pd.options.mode.copy_on_write = True
    with tempfile.TemporaryDirectory(prefix="kraftwatch-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        _stages(folder / "first", min(partitions, default=0))  # the first run also pays for imports
        spark = start_spark(master="local[2]", logs=folder / "log", settings={})
        found = {
            "partitions": {
                str(count): _stages(folder / f"s{count}", count) | _partitions_batch(spark, folder / f"p{count}", count)
                for count in partitions
            },
            "clusters": {str(count): _clusters_batch(spark, folder / f"c{count}", count) for count in clusters},
        }
        spark.stop()
    return found


def _stages(folder: Path, partitions: int) -> dict[str, float]:
    """Returns what the step costs in this process."""
    step, state = Step({_NAME: settings_of(_NAME)}, spark_folder=folder), OneState()
    sequence = 0

    def run(rows: Iterable[Observation]) -> float:
        nonlocal sequence
        numbered = [replace(row, sequence=sequence + at) for at, row in enumerate(rows)]
        sequence += len(numbered)
        began = time.process_time()
        for _ in step((_NAME, 0), iter([pack(numbered).to_pandas()]), state):  # type: ignore[arg-type]
            pass
        return 1_000 * (time.process_time() - began)

    pieces = snapshot_rows(_NAME, partitions)
    loaded_ms = 0.0
    while chunk := list(islice(pieces, _PIECES)):
        loaded_ms += run(chunk)
    took = [run(second_rows(_NAME, partitions, second)) for second in range(_WARM_UP + _MEASURED)]
    Step._cache.clear()
    return {
        "load_cpu_ms": round(loaded_ms, 1),
        "batch_cpu_ms": round(median(took[_WARM_UP:]), 2),
        "state_bytes": len(state.blob or b"") + pages_bytes(folder),
    }


def _partitions_batch(spark: SparkSession, folder: Path, partitions: int) -> dict[str, Any]:
    """Returns what a batch with 10 changed partitions costs with Spark."""
    with live_batches(spark, folder, {_NAME: settings_of(_NAME)}) as live:
        loaded_s = live.pass_rows(list(snapshot_rows(_NAME, partitions)))
        took: list[float] = []
        before = 0.0
        for second in range(_WARM_UP + _MEASURED):
            if second == _WARM_UP:
                before = children_cpu_s()
            took.append(1_000 * live.pass_rows(second_rows(_NAME, partitions, second)))
        spent = children_cpu_s() - before
        return {
            "spark_load_ms": round(1_000 * loaded_s),
            "spark_batch_ms": percentiles(took[_WARM_UP:]),
            "spark_batch_cpu_ms": round(1_000 * spent / _MEASURED, 1),
            "spark_state_bytes": live.state_bytes(),
        }


def _clusters_batch(spark: SparkSession, folder: Path, clusters: int) -> dict[str, Any]:
    """Returns what one second of quiet clusters costs with Spark."""
    names = cluster_names(clusters)
    with live_batches(spark, folder, {name: settings_of(name) for name in names}) as live:
        live.pass_rows([beginning(name) for name in names])
        took: list[float] = []
        before, batches = 0.0, 0
        for second in range(_WARM_UP + _MEASURED):
            if second == _WARM_UP:
                before, batches = children_cpu_s(), live.reached.batches
            took.append(1_000 * live.pass_rows([row for name in names for row in quiet_second(name, second)]))
        spent = children_cpu_s() - before
        return {
            "second_ms": percentiles(took[_WARM_UP:]),
            "second_cpu_ms": round(1_000 * spent / _MEASURED, 1),
            "cluster_second_cpu_ms": round(1_000 * spent / _MEASURED / clusters, 3),
            "batches_per_second": round((live.reached.batches - batches) / _MEASURED, 1),
            "state_bytes": live.state_bytes(),
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the figures as JSON."""
    parser = argparse.ArgumentParser(description="A micro-batch by the size of the metadata.")
    parser.add_argument("--partitions", default=",".join(map(str, PARTITIONS)))
    parser.add_argument("--clusters", default=",".join(map(str, CLUSTERS)))
    options = parser.parse_args(arguments)
    found = figures(*(list(map(int, filter(None, text.split(",")))) for text in (options.partitions, options.clusters)))
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
