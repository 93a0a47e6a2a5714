"""The states in Spark's checkpoint, as Spark's own readers return them: of the newest batch, or of an older one.

Spark keeps the states of `spark.sql.streaming.minBatchesToRetain` batches.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatches:
    """The committed batches whose state can be read."""

    oldest: int
    newest: int


def stored_batches(spark: SparkSession, location: str) -> StoredBatches | None:
    """Returns the batches of a checkpoint, a path or URI; None if it has none."""
    found = spark.read.format("state-metadata").load(location).select("minBatchId", "maxBatchId").collect()
    return StoredBatches(oldest=found[0].minBatchId, newest=found[0].maxBatchId) if found else None


def group_states(spark: SparkSession, location: str, batch: int | None = None) -> DataFrame:
    """Returns the states of the groups of clusters after a batch, in the column `state` (`schema.unpack_states`).

    Args:
        location: Spark's checkpoint, a path or URI.
        batch: None: the newest one.
    """
    # Spark creates the StateStoreCoordinator, which the reader needs, with the session's manager of queries.
    _ = spark.streams.active
    reader = spark.read.format("statestore").option("path", location)
    if batch is not None:
        reader = reader.option("batchId", batch)
    return reader.load().selectExpr("value.groupState.state AS state")
