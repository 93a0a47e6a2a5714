"""Restores a damaged ledger from Spark's state before the query starts: the state knows which alerts are firing."""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from connectors.delivery.ledger import Ledger
from connectors.errors import UsageError
from connectors.wall_clock import wall_ms
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.query import JobError
from streaming.pipeline.spark_state import UnreadableStateError, evaluated_clusters, read_states
from streaming.replay.cluster_settings import ClusterSettings


def restore_ledger(
    ledger: Ledger, spark: SparkSession, checkpoint: Checkpoint, settings: Mapping[str, ClusterSettings]
) -> None:
    """Records again what a damaged ledger has lost; does nothing for an intact one.

    Raises:
        JobError: Spark's state cannot be read.
        LedgerError: the ledger cannot be written.
    """
    if ledger.damage is None:
        return
    try:
        states = read_states(spark, checkpoint.spark) if checkpoint.spark_files.has_state else {}
        clusters = evaluated_clusters(states, settings)
    except (UnreadableStateError, UsageError) as problem:
        raise JobError(
            f"the damaged ledger {checkpoint.ledger} cannot be restored, because Spark's state cannot be read "
            f"({problem}); run `{checkpoint.repair_command}`"
        ) from problem
    ledger.restore(clusters, wall_ms())
