"""What batches leave behind: state files and Java objects that no batch needs are deleted; a restart uses the rest."""

import gc
from pathlib import Path

import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from tests.eventually import eventually
from tests.spark.pipeline_run import PipelineRun

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]


def test_old_state_files_are_deleted_and_a_restart_uses_the_rest(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = PipelineRun(spark, tmp_path)
    pipeline.start()
    changes = pipeline.checkpoint.spark / "state" / "0" / "0"

    def old_files_deleted() -> None:
        pipeline.lose_the_leader()
        assert list(changes.glob("*.zip")), "the snapshot of the first batches"
        assert not (changes / "1.changelog").exists(), "the folder would grow with each batch"

    pipeline.lose_the_leader(times=8)
    pipeline.wait_for_transitions(("no-leader", "firing"))
    eventually(old_files_deleted, within_s=120)
    assert not list(changes.rglob(".*.crc")), "a deleted file leaves no checksum"

    pipeline.stop()
    pipeline.start()
    pipeline.have_a_leader(times=14)
    pipeline.wait_for_transitions(("no-leader", "firing"), ("no-leader", "resolved"))
    pipeline.close()


def frames_known_to_python(spark: SparkSession) -> int:
    """Returns how many frames Java keeps because Python may use them."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    known = gateway.java_gateway_server.getGateway().getBindings()
    frames = 0
    for name in list(known):
        found = known.get(name)
        frames += isinstance(found, JavaObject) and found.getClass().getSimpleName() == "Dataset"
        if isinstance(found, JavaObject):
            # The look-up has made Java keep it once more.
            gateway.detach(found)
    return frames


def test_java_keeps_no_frame_of_a_delivered_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Each frame keeps the rows of its batch, and Python's garbage collector seldom runs."""
    pipeline = PipelineRun(spark, tmp_path)
    pipeline.start()

    def delivered() -> None:
        newest = pipeline.store.newest("prod")
        assert newest is not None
        assert newest.status.now_ms == pipeline.now_ms - 1_000

    gc.collect()
    gc.disable()
    try:
        before = frames_known_to_python(spark)
        for _ in range(4):
            pipeline.have_a_leader()
            eventually(delivered, within_s=120)
        eventually(lambda: frames_known_to_python(spark) <= before, within_s=60)
    finally:
        gc.enable()
        pipeline.close()
