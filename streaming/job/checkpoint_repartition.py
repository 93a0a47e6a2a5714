"""Spreads the state of a stopped job over another number of partitions, with Spark's own offline repartitioning.

Spark reads the state of every partition, writes it to the new partitions as the state of a batch without rows, and
commits that batch: the next start continues from it. The files of a batch that was planned and not committed, also of
an interrupted change, are deleted before: its rows are evaluated again, and the ledger has the alerts that were sent.
"""

from collections.abc import Iterator
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connectors.errors import UsageError
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.query import JobError, error_cause
from streaming.pipeline.spark_files import SparkFiles

_STATE_SUFFIXES = (".changelog", ".zip", ".delta", ".snapshot")
"""Of a version of the state, in Spark's two kinds of state stores."""


def partitions_to_change(checkpoint: Checkpoint, partitions: int) -> int | None:
    """Returns the present number of partitions; None if it is already this one.

    Raises:
        UsageError: the checkpoint has no state yet, or a damaged file.
    """
    files = checkpoint.spark_files
    existing = files.partitions
    if existing is None:
        raise UsageError(
            f"checkpoint {checkpoint.folder} has no state yet: set pipeline.partitions, and start the job with it"
        )
    checkpoint.check_spark()
    return None if existing == partitions == files.planned_partitions else existing


def repartition(checkpoint: Checkpoint, spark: SparkSession, partitions: int) -> None:
    """Spreads the state over this many partitions.

    Args:
        checkpoint: locked by this process; its query is stopped.
        spark: any session.
        partitions: the new number.

    Raises:
        JobError: Spark cannot do it; the state is as before, and the same command can be run again.
    """
    files = checkpoint.spark_files
    # Spark itself would commit a batch that has no state, and could not complete an interrupted change.
    for path in [*_not_committed(files)]:
        path.unlink()
    if files.partitions == partitions:
        return
    # Spark creates the StateStoreCoordinator, which the change needs, with the session's manager of queries.
    _ = spark.streams.active
    try:
        # PySpark 4.2 has no public name for it yet.
        spark._streamingCheckpointManager.repartition(str(checkpoint.spark), partitions)
    except (PySparkException, Py4JError) as problem:
        raise JobError(
            f"Spark cannot spread the state in {checkpoint.spark} over {partitions} partitions: {error_cause(problem)}"
        ) from problem


def _not_committed(files: SparkFiles) -> Iterator[Path]:
    """Yields the files of batches after the newest committed one: offsets first, then versions of the state."""
    committed = files.commits[-1]
    yield from (files.folder / "offsets" / str(batch) for batch in reversed(files.offsets) if batch > committed)
    for path in sorted((files.folder / "state").glob("*/*/[0-9]*.*")):
        if path.suffix in _STATE_SUFFIXES and path.stem.isdigit() and int(path.stem) > committed + 1:
            yield path
