"""Reads Spark's state of a stopped query: the clusters' states.

Source: Spark's state data source, `spark.read.format("statestore")`.
"""

from collections.abc import Mapping
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connectors.errors import KraftwatchError
from streaming.pipeline.packed_observations import SHARD_OF_QUORUM
from streaming.pipeline.query import error_cause


class UnreadableStateError(KraftwatchError):
    """Spark cannot read the state of a batch."""


def read_states(spark: SparkSession, folder: Path, batch: int | None = None) -> Mapping[str, bytes]:
    """Returns the stored state of each cluster after a committed batch.

    Args:
        spark: any session.
        folder: Spark's checkpoint; its query is stopped.
        batch: None for the newest committed batch.

    Raises:
        UnreadableStateError: a file is missing or damaged.
    """
    # Spark creates the StateStoreCoordinator, which the reader needs, with the session's manager of queries.
    _ = spark.streams.active
    reader = spark.read.format("statestore").option("path", str(folder))
    if batch is not None:
        reader = reader.option("batchId", batch)
    try:
        rows = reader.load().collect()
    except (PySparkException, Py4JError) as problem:
        raise UnreadableStateError(error_cause(problem)) from problem
    return {row.key.cluster: bytes(row.value.groupState.state) for row in rows if row.key.shard == SHARD_OF_QUORUM}
