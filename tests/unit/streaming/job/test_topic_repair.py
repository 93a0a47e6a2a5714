"""Damaged files of a checkpoint on a relay's topic: Spark's state is built again from the topic."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming.job.checkpoint_repair import plan_repair
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.checkpoint_source import CheckpointSource, record_source

OFFSETS = 'v1\n{"batchWatermarkMs":0}\n{"observations":{"0":7,"1":0}}'


def no_spark() -> SparkSession:
    raise AssertionError("Spark is started")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    checkpoint = Checkpoint(folder=tmp_path)
    record_source(checkpoint, CheckpointSource(kind="kafka", starting_offsets={"observations": {0: 0}}))
    (checkpoint.spark / "offsets").mkdir(parents=True)
    (checkpoint.spark / "metadata").write_text(json.dumps({"id": "x"}))
    (checkpoint.spark / "offsets" / "0").write_text(OFFSETS)
    return checkpoint


def test_offsets_of_a_topic_are_not_damaged(checkpoint: Checkpoint) -> None:
    assert not checkpoint.spark_files.damaged()
    assert list(plan_repair(checkpoint, no_spark)) == []


@pytest.mark.parametrize("content", ["", OFFSETS[:20], OFFSETS[:-3], 'v1\n{}\n{"observations":7}'])
def test_damaged_offsets_are_repaired_by_a_new_state(checkpoint: Checkpoint, content: str) -> None:
    (checkpoint.spark / "offsets" / "1").write_text(content)

    (step,) = plan_repair(checkpoint, no_spark)
    step.apply()

    assert "offsets/1 is damaged" in step.found
    assert "from the relay's topic" in step.repair
    assert not checkpoint.spark.exists()
    assert (checkpoint.folder / "spark.damaged-1" / "offsets" / "1").exists()
