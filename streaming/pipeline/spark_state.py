"""Reads Spark's state of a stopped query: the clusters' states and the alerts that are firing in them.

Source: Spark's state data source, `spark.read.format("statestore")`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connectors.delivery.ledger_restoration import EvaluatedCluster
from connectors.errors import KraftwatchError
from rules.alert import Alert
from rules.lifecycle import condition_alert
from streaming.pipeline.packed_observations import SHARD_OF_QUORUM
from streaming.pipeline.query import error_cause
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings


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


def evaluated_clusters(
    states: Mapping[str, bytes], settings: Mapping[str, ClusterSettings]
) -> Sequence[EvaluatedCluster]:
    """Returns what is firing in the states of the configured clusters.

    Raises:
        UsageError: a state is of another version of kraftwatch, of another cluster, or damaged.
    """
    return [_evaluated(cluster, settings[cluster], states[cluster]) for cluster in settings if cluster in states]


def _evaluated(cluster: str, settings: ClusterSettings, state: bytes) -> EvaluatedCluster:
    monitor = ClusterMonitor.restored(state, settings)
    return EvaluatedCluster(cluster=cluster, now_ms=monitor.tracked.now_ms, firing=tuple(_firing(monitor)))


def _firing(monitor: ClusterMonitor) -> Iterator[Alert]:
    remedies = {(one.rule, one.subject): one.remedy for one in monitor.evaluation().findings}
    for condition in monitor.tracked.conditions.values():
        if condition.notified_severity is not None:
            fired = condition_alert(
                condition,
                monitor.machine.quorum(),
                remedy=remedies.get((condition.rule, condition.subject), ()),
                due_at_ms=condition.due_at_ms,
            )
            yield replace(fired, observed_at_ms=condition.last_seen_at_ms)
