"""The job's query without a quorum: rows are published by the caller, who waits until Spark has passed them through."""

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from pyspark.sql import DataFrame, SparkSession

from connectors.journal.writer import JournalWriter
from connectors.observation import Observation
from streaming.config.root import PipelineSection
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.page_files import FOLDER
from streaming.pipeline.query import start
from streaming.pipeline.step import Step
from streaming.replay.cluster_settings import ClusterSettings

_OFFSETS_LINE = 2
"""The line of a file in `offsets` that holds the source's offset."""
_BATCH_S = 300.0


@dataclass(slots=True, kw_only=True)
class ReachedSequence:
    """foreachBatch: collects the rows as the job does, and notes up to which row the query has come."""

    checkpoint: Checkpoint
    sequence: int = 0
    batches: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Runs the batch."""
        frame.collect()
        offsets = (self.checkpoint.spark / "offsets" / str(batch_id)).read_text().splitlines()
        with self.changed:
            self.sequence = json.loads(offsets[_OFFSETS_LINE])["sequence"]
            self.batches += 1
            self.changed.notify()


@dataclass(slots=True, kw_only=True)
class LiveBatches:
    """A running query and the journal that it reads."""

    journal: JournalWriter
    reached: ReachedSequence

    def pass_rows(self, rows: Sequence[Observation]) -> float:
        """Publishes rows; returns the seconds until all of them were evaluated and collected."""
        self.journal.append(rows)
        self.journal.publish()
        began = time.monotonic()
        end = self.journal.published_end
        with self.reached.changed:
            assert self.reached.changed.wait_for(lambda: self.reached.sequence >= end, _BATCH_S), "the query has ended"
        return time.monotonic() - began

    def state_bytes(self) -> int:
        """Returns the bytes of the newest change of Spark's state, over all partitions."""
        state = self.reached.checkpoint.spark / "state" / "0"
        return sum(_newest_bytes(folder) for folder in state.iterdir() if folder.name.isdigit())


@contextmanager
def live_batches(
    spark: SparkSession, folder: Path, settings: Mapping[str, ClusterSettings], *, partitions: int = 1
) -> Iterator[LiveBatches]:
    """Runs the job's query on a new checkpoint in `folder`."""
    checkpoint = Checkpoint(folder=folder)
    for key, value in PipelineSection(partitions=partitions).spark_settings().items():
        spark.conf.set(key, value)
    reached = ReachedSequence(checkpoint=checkpoint)
    step = Step(settings, spark_folder=checkpoint.spark)
    with JournalWriter(checkpoint.journal) as journal:
        query = start(spark, checkpoint, step, reached, None)  # type: ignore[arg-type]
        try:
            yield LiveBatches(journal=journal, reached=reached)
        finally:
            query.stop()


def children_cpu_s() -> float:
    """Returns the CPU seconds of this process's children: Java and its Python workers."""
    total = 0.0
    for process in psutil.Process(os.getpid()).children(recursive=True):
        # Spark forks short-lived processes; their time is the parent's once they have ended.
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def pages_bytes(spark_folder: Path) -> int:
    """Returns the bytes of the pages beside Spark's state."""
    return sum(path.stat().st_size for path in (spark_folder / FOLDER).rglob("*") if path.is_file())


def _newest_bytes(folder: Path) -> int:
    files = {int(path.name.partition(".")[0]): path for path in folder.glob("*.changelog")}
    return files[max(files)].stat().st_size if files else 0
