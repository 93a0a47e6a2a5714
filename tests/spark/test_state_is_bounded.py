"""The state that Spark keeps: what later batches made needless is deleted, else it grew with each batch for ever."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connectors.observation import Kind
from tests.eventually import eventually
from tests.spark.test_pipeline import Pipeline, led

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]


def test_the_state_of_batches_long_past_is_deleted(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = Pipeline(spark, tmp_path)
    pipeline.go()
    changes = pipeline.checkpoint.spark / "state" / "0" / "0"
    oldest = changes / "1.changelog"

    def batch(*, written: bool) -> bool:
        pipeline.observe(Kind.QUORUM, led())
        pipeline.told()
        return oldest.exists() is written

    eventually(lambda: batch(written=True), within_s=60)
    eventually(lambda: batch(written=False), within_s=120)
    assert list(changes.glob("*.zip")), "what they came to"
    assert not list(changes.rglob(".*.crc")), "what is deleted leaves its checksum behind"
    pipeline.stop()
