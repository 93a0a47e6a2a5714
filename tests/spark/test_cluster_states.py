"""`cluster_states` on a real Spark: the states of a job whose query runs, at a batch and at a time."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connectors.errors import UsageError
from streaming.dataframes.cluster_states import CLUSTER_STATE, cluster_states
from streaming.job.spark_state import read_states
from streaming.pipeline.spark.remote_checkpoint import use_remote_checkpoint
from streaming.replay.state_codec import stored_references
from tests.spark.pipeline_run import PipelineRun
from tests.spark.read_pieces import PIECES, read_piece

pytestmark = [
    pytest.mark.spark,
    pytest.mark.live,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def test_what_a_job_believed_at_a_time_and_after_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    run = PipelineRun(spark, tmp_path, ("prod", "lab"))
    run.start()
    before = datetime.now(UTC)
    run.batch(lambda: run.have_a_leader("prod", "lab"))
    led = datetime.now(UTC)
    # Longer than the hold of no-leader.
    run.batch(lambda: run.lose_the_leader("prod", times=30))
    lost = run.checkpoint.spark_files.commits[-1]

    frame = cluster_states(spark, run.checkpoint.folder, at=led)
    assert frame.schema == CLUSTER_STATE
    states = {row.cluster: row for row in frame.collect()}
    assert {name: (row.leader_id, [*row.firing]) for name, row in states.items()} == {"prod": (1, []), "lab": (1, [])}
    assert json.loads(states["prod"].status)["leader_id"] == 1
    assert round(states["prod"].observed_at.timestamp() * 1_000) == states["prod"].observed_at_ms

    (prod,) = cluster_states(spark, run.checkpoint.folder, batch=lost).where("cluster = 'prod'").collect()
    (newest,) = cluster_states(spark, run.checkpoint.folder).where("cluster = 'prod'").collect()
    assert (prod.leader_id, prod.batch, newest) == (None, lost, prod)
    assert [(one.rule, one.severity) for one in prod.firing if one.rule == "no-leader"] == [("no-leader", "critical")]

    with pytest.raises(UsageError, match=r"the state of .* UTC is not in file:.*, which has batches 0 to "):
        cluster_states(spark, run.checkpoint.folder, at=before)
    with pytest.raises(UsageError, match="the state of batch 1000 is not in"):
        cluster_states(spark, run.checkpoint.folder, batch=1_000)
    run.close()


def test_pages_of_a_large_state_are_read(spark: SparkSession, tmp_path: Path) -> None:
    run = PipelineRun(spark, tmp_path)
    run.start()
    for number in range(PIECES):
        run.batch(lambda number=number: read_piece(run, number))  # type: ignore[misc]
    run.batch(run.have_a_leader)
    run.close()
    assert stored_references("prod", read_states(spark, run.checkpoint.location)["prod"])

    (prod,) = cluster_states(spark, run.checkpoint.folder).collect()

    assert json.loads(prod.status)["recovering_partitions"] is not None, "the whole metadata image is there"
    assert prod.voters == [one["id"] for one in json.loads(prod.status)["committed_voters"]["voters"]]


def test_states_of_a_checkpoint_elsewhere_are_read_by_its_uri(spark: SparkSession, tmp_path: Path) -> None:
    """A mount table needs no further jar. The format of the state is that of a new checkpoint elsewhere."""
    run = PipelineRun(spark, tmp_path)
    mounted = run.checkpoint.spark
    mounted.mkdir(parents=True)
    spark.sparkContext._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.states.link./job", mounted.as_uri())
    run.checkpoint = replace(run.checkpoint, uri="viewfs://states/job")
    use_remote_checkpoint(spark, "viewfs://states/job", run.checkpoint.spark_files)
    run.start()
    run.batch(run.have_a_leader)
    led = datetime.now(UTC)
    run.batch(run.lose_the_leader)
    run.close()
    assert run.checkpoint.spark_files.state_format == 2
    # As in a session that runs no job.
    spark.conf.unset("spark.sql.streaming.stateStore.checkpointFormatVersion")

    (state,) = cluster_states(spark, "viewfs://states/job", at=led).collect()

    assert (state.cluster, state.batch, state.leader_id) == ("prod", 0, 1)


def test_what_cannot_be_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no state: name the checkpoint of a job that has completed a batch"):
        cluster_states(spark, tmp_path)
    with pytest.raises(UsageError, match="give `at`, a time with a time zone, or `batch`"):
        cluster_states(spark, tmp_path, at=datetime(2026, 11, 20))  # noqa: DTZ001 - that is the mistake
