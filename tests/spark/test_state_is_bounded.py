"""Spark's state store: files that no batch needs any more are deleted; a restart works with the remaining ones."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connectors.observations.observation import ObservationKind
from tests.eventually import eventually
from tests.spark.test_pipeline import BOOTSTRAP, Pipeline, alerts_are, poll_with_leader, poll_without_leader

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]


def test_old_state_files_are_deleted_and_a_restart_uses_the_rest(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = Pipeline(spark, tmp_path)
    pipeline.start()
    changes = pipeline.checkpoint.spark / "state" / "0" / "0"

    def old_files_deleted() -> None:
        pipeline.observe(ObservationKind.FAILED, *map(poll_without_leader, BOOTSTRAP))
        pipeline.alerts()
        assert list(changes.glob("*.zip")), "the snapshot of the first batches"
        assert not (changes / "1.changelog").exists(), "the folder would grow with each batch"

    for _ in range(8):
        pipeline.observe(ObservationKind.FAILED, *map(poll_without_leader, BOOTSTRAP))
    eventually(alerts_are(pipeline, ("no-leader", "firing")), within_s=60)
    eventually(old_files_deleted, within_s=120)
    assert not list(changes.rglob(".*.crc")), "a deleted file leaves no checksum"

    assert pipeline.query is not None
    pipeline.query.stop()
    pipeline.start()
    for _ in range(14):
        pipeline.observe(ObservationKind.QUORUM, poll_with_leader())
    eventually(alerts_are(pipeline, ("no-leader", "firing"), ("no-leader", "resolved")), within_s=60)
    pipeline.stop()
