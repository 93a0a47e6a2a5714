"""The floor of Spark: from a published row to foreachBatch, with a pipeline that does nothing.

The session, the trigger and the source are those of the job. Once without Python stages and without state, and once
with a stateful step that does nothing.
"""

import random
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_writer import JournalWriter
from streaming.pipeline.schema import OUTPUT, STATE
from streaming.pipeline.source import JournalSource
from streaming.pipeline.spark.spark_session import start_spark
from tests.bench.job_cost import percentiles

ROWS = 30
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


def step(key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Yields one row and stores one byte of state."""
    for _ in frames:
        pass
    state.update((b"\0",))
    yield pd.DataFrame([("status", str(key[0]), "", "")], columns=OUTPUT.fieldNames())


def figures() -> dict[str, Any]:
    """Returns percentiles in ms by pipeline."""
    with tempfile.TemporaryDirectory(prefix="kraftwatch-floor-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        spark = start_spark(master="local[2]", logs=folder / "log", settings={})
        spark.dataSource.register(JournalSource)
        with JournalWriter(folder / "journal") as journal:
            journal.publish()
            rows = spark.readStream.format(JournalSource.NAME).option("path", str(folder / "journal")).load()
            stepped = rows.groupBy("group").applyInPandasWithState(
                step, OUTPUT, STATE, "append", GroupStateTimeout.NoTimeout
            )
            found = {
                plan: percentiles(_latencies(frame, folder / plan, journal))
                for plan, frame in {"source only": rows, "with an empty step": stepped}.items()
            }
        spark.stop()
    return found


def _latencies(frame: DataFrame, checkpoint: Path, journal: JournalWriter) -> list[float]:
    """Publishes one row after the other at random moments; returns the ms until each was collected."""
    collector = BatchCollector()
    query = frame.writeStream.foreachBatch(collector).option("checkpointLocation", str(checkpoint)).start()
    chooser = random.Random(ROWS)
    took: list[float] = []
    for number in range(ROWS + _WARM_UP_ROWS):
        collector.called.clear()
        row = Observation(cluster="floor", kind=ObservationKind.VIEW, observed_at_ms=number, payload=b"")
        journal.append([row])
        journal.publish()
        began = time.monotonic()
        assert collector.called.wait(_ROW_S), query.exception()
        if number >= _WARM_UP_ROWS:
            took.append(1000 * (collector.newest - began))
        time.sleep(chooser.uniform(*PAUSE_S))
    query.stop()
    return took
