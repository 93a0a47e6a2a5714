"""Measures the floor of Spark: from a published row to foreachBatch, with a pipeline that does nothing.

`python -m tests.bench.spark_floor [--rows 100]`. The session, the trigger and the source are those of the job. Once
without Python stages and without state, and once with the job's plan, whose functions pass a row on.
"""

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from connectors.journal.writer import JournalWriter
from connectors.observation import Observation, ObservationKind
from streaming.pipeline.schema import OBSERVATION, OUTPUT, STATE
from streaming.pipeline.source import JournalSource
from streaming.pipeline.spark_session import start_spark
from tests.bench.percentiles import percentiles

PAUSE_S = (0.3, 0.7)
_WARM_UP_ROWS = 10
_ROW_S = 60.0


@dataclass(slots=True)
class BatchCollector:
    """foreachBatch: collects the rows, and notes when."""

    newest: float = 0.0
    called: threading.Event = field(default_factory=threading.Event)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Runs the batch."""
        frame.collect()
        self.newest = time.monotonic()
        self.called.set()


def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The decode stage that does nothing."""
    yield from batches


def step(key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """The step that does nothing: one row and one byte of state."""
    for _ in frames:
        pass
    state.update((b"\0",))
    yield pd.DataFrame([("status", key[0], "", "")], columns=OUTPUT.fieldNames())


def plans(spark: SparkSession, journal: Path) -> dict[str, DataFrame]:
    """Returns the two pipelines by name."""
    spark.dataSource.register(JournalSource)
    rows = spark.readStream.format(JournalSource.NAME).option("path", str(journal)).load()
    same = rows.mapInArrow(pass_on, OBSERVATION).groupBy("cluster")
    return {
        "source only": rows,
        "the job's plan, empty functions": same.applyInPandasWithState(
            step, OUTPUT, STATE, "append", GroupStateTimeout.NoTimeout
        ),
    }


def measure(rows: int = 100) -> dict[str, Any]:
    """Returns percentiles in ms by pipeline."""
    with tempfile.TemporaryDirectory(prefix="kraftwatch-floor-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        spark = start_spark(master="local[2]", logs=folder / "log", settings={})
        with JournalWriter(folder / "journal") as journal:
            journal.publish()
            found = {
                plan: percentiles(_latencies(frame, folder / str(number), journal, rows))
                for number, (plan, frame) in enumerate(plans(spark, folder / "journal").items())
            }
        spark.stop()
    return found


def _latencies(frame: DataFrame, checkpoint: Path, journal: JournalWriter, rows: int) -> list[float]:
    """Publishes one row after the other at random moments; returns the ms until each was collected."""
    collector = BatchCollector()
    query = frame.writeStream.foreachBatch(collector).option("checkpointLocation", str(checkpoint)).start()
    chooser = random.Random(rows)
    took: list[float] = []
    for number in range(rows + _WARM_UP_ROWS):
        collector.called.clear()
        journal.append([_row(number)])
        journal.publish()
        began = time.monotonic()
        assert collector.called.wait(_ROW_S), query.exception()
        if number >= _WARM_UP_ROWS:
            took.append(1000 * (collector.newest - began))
        time.sleep(chooser.uniform(*PAUSE_S))
    query.stop()
    return took


def _row(number: int) -> Observation:
    return Observation(
        cluster="floor",
        kind=ObservationKind.VIEW,
        observed_at_ms=1_795_000_000_000 + number,
        payload=b"",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the figures as JSON."""
    parser = argparse.ArgumentParser(description="The floor of Spark.")
    parser.add_argument("--rows", type=int, default=100)
    sys.stdout.write(json.dumps(measure(parser.parse_args(arguments).rows), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
