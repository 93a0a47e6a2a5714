"""`cluster_states(spark, CHECKPOINT, at=TIME)`: what a job knew of each cluster after a batch, as a DataFrame.

The states are Spark's own, in the job's checkpoint; its query may be running. They are decoded where the tasks run.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from connectors.errors import UsageError
from rules.formatting import utc_text
from rules.lifecycle import TrackedCondition
from rules.model.identifiers import Millis
from streaming.config import Config
from streaming.dataframes.metadata_log_source import local_path, timestamp_us
from streaming.pipeline.arrow_schema import arrow_schema
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.page_files import PageFiles
from streaming.pipeline.schema import unpack_states
from streaming.pipeline.spark.hadoop_folder import HadoopFolder
from streaming.pipeline.spark.remote_checkpoint import STATE_FORMAT
from streaming.pipeline.spark.spark_files import SparkFiles
from streaming.pipeline.stored_state import group_states, stored_batches
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.build_status import job_cluster_status
from streaming.status.cluster_status import ClusterStatus, status_json


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """The state of one cluster after a batch."""

    batch: int
    monitor: ClusterMonitor
    status: ClusterStatus


def _voters(state: _State) -> list[int]:
    committed = state.status.committed_voters
    return [endpoints.id for endpoints in (state.status.current_voters if committed is None else committed.voters)]


def _conditions(state: _State, *, firing: bool) -> list[Mapping[str, Any]]:
    found = sorted(
        state.monitor.tracked.conditions.values(), key=lambda one: (one.started_at_ms, one.rule, one.subject)
    )
    return [_condition(condition) for condition in found if (condition.notified_severity is not None) is firing]


def _condition(one: TrackedCondition) -> Mapping[str, Any]:
    return {
        "rule": one.rule,
        "subject": one.subject,
        "severity": None if one.notified_severity is None else one.notified_severity.value,
        "started_at": timestamp_us(one.started_at_ms),
        "summary": one.summary,
    }


_TEXT, _INT, _LONG, _TIME = StringType(), IntegerType(), LongType(), TimestampType()
_CONDITIONS = ArrayType(
    StructType(
        [
            StructField("rule", _TEXT),
            StructField("subject", _TEXT),
            StructField("severity", _TEXT),
            StructField("started_at", _TIME),
            StructField("summary", _TEXT),
        ]
    )
)
_COLUMNS: Final[Mapping[str, tuple[DataType, Callable[[_State], object]]]] = {
    "cluster": (_TEXT, lambda state: state.status.cluster),
    "cluster_id": (_TEXT, lambda state: state.status.cluster_id),
    "batch": (_LONG, lambda state: state.batch),
    "observed_at": (_TIME, lambda state: timestamp_us(state.status.now_ms or None)),
    "observed_at_ms": (_LONG, lambda state: state.status.now_ms or None),
    "leader_id": (_INT, lambda state: state.status.leader_id),
    "leader_epoch": (_INT, lambda state: state.status.leader_epoch),
    "high_watermark": (_LONG, lambda state: state.status.high_watermark),
    "last_offset": (_LONG, lambda state: state.status.last_offset),
    "voters": (ArrayType(_INT), _voters),
    "failures_left": (_INT, lambda state: state.status.failures_left),
    "electable": (BooleanType(), lambda state: state.status.electable),
    "firing": (_CONDITIONS, partial(_conditions, firing=True)),
    "pending": (_CONDITIONS, partial(_conditions, firing=False)),
    "status": (_TEXT, lambda state: json.dumps(status_json(state.status), ensure_ascii=False)),
}
CLUSTER_STATE: Final = StructType(
    [
        StructField(name, type_, nullable=name not in ("cluster", "batch", "status"))
        for name, (type_, _) in _COLUMNS.items()
    ]
)
"""docs/dataframes.md describes each column."""


def cluster_states(
    spark: SparkSession,
    checkpoint: Path | str,
    *,
    at: datetime | None = None,
    batch: int | None = None,
    config: Config | None = None,
) -> DataFrame:
    """Returns the state of each cluster after a batch, one row for each; the newest batch if no other is named.

    Args:
        checkpoint: the job's folder; or the URI of its `checkpoint`, if that is elsewhere.
        at: the newest batch that began by then, a time with a time zone.
        batch: the number of the batch.
        config: has the thresholds with which `status` is evaluated; None: the defaults. What fires and is pending is
            what the job has stored.

    Raises:
        UsageError: there is no state, or none of that time or batch any more.
    """
    place = _place(checkpoint)
    files = place.spark_files if place.uri is None else SparkFiles(folder=HadoopFolder(spark, place.uri))
    chosen = _chosen(spark, place, files, at, batch)
    settings = {} if config is None else {cluster.name: config.cluster_settings(cluster) for cluster in config.clusters}
    rows = partial(_rows, settings=settings, pages=place.pages, batch=chosen)
    with _state_format(spark, files.state_format):
        states = group_states(spark, place.location, chosen)
    return states.mapInArrow(rows, CLUSTER_STATE)


@contextmanager
def _state_format(spark: SparkSession, version: int | None) -> Iterator[None]:
    """Lets what is inside read states of this format: Spark takes it from the session, and not from the checkpoint."""
    before = spark.conf.get(STATE_FORMAT)
    spark.conf.set(STATE_FORMAT, str(version or before))
    try:
        yield
    finally:
        spark.conf.set(STATE_FORMAT, str(before))


def _place(checkpoint: Path | str) -> Checkpoint:
    text = str(checkpoint)
    if "://" in text and not text.startswith("file:"):
        return Checkpoint(folder=Path(), uri=text)
    return Checkpoint(folder=local_path(text))


def _chosen(spark: SparkSession, place: Checkpoint, files: SparkFiles, at: datetime | None, batch: int | None) -> int:
    """Returns the number of the batch."""
    if at is not None and (batch is not None or at.tzinfo is None):
        raise UsageError("give `at`, a time with a time zone, or `batch`, but not both")
    kept = stored_batches(spark, place.location)
    if kept is None:
        raise UsageError(f"{place.location} holds no state: name the checkpoint of a job that has completed a batch")
    if at is None:
        chosen, wanted = kept.newest if batch is None else batch, f"batch {batch}"
    else:
        at_ms = round(at.timestamp() * 1_000)
        batches = range(kept.oldest, kept.newest + 1)
        # The times of batches ascend.
        chosen = kept.oldest - 1 + bisect_right(batches, at_ms, key=lambda one: files.planned_at_ms(one) or 0)
        wanted = utc_text(Millis(at_ms))
    if not kept.oldest <= chosen <= kept.newest:
        raise UsageError(
            f"the state of {wanted} is not in {place.location}, which has batches {kept.oldest} to {kept.newest} "
            "(spark.sql.streaming.minBatchesToRetain): `kraftwatch status --journal DIR --at TIME` replays the journal"
        )
    return chosen


def _rows(
    batches: Iterator[pa.RecordBatch], *, settings: Mapping[str, ClusterSettings], pages: Path | None, batch: int
) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(CLUSTER_STATE)
    for groups in batches:
        for value in groups.column("state").to_pylist():
            for cluster, blob in unpack_states(value).items():
                own = settings.get(cluster) or ClusterSettings(name=cluster)
                # One at a time: the state of a large cluster has all of its partitions.
                state = _state(own, blob, None if pages is None else PageFiles(pages, cluster), batch)
                row = {name: read(state) for name, (_, read) in _COLUMNS.items()}
                yield pa.RecordBatch.from_pylist([row], schema=schema)


def _state(settings: ClusterSettings, blob: bytes, pages: PageFiles | None, batch: int) -> _State:
    monitor = ClusterMonitor.restored(blob, settings, pages)
    status = job_cluster_status(monitor.facts, settings.thresholds, monitor.evaluation(), monitor.tracked)
    return _State(batch=batch, monitor=monitor, status=status)
