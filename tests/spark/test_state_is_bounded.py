"""The state that Spark keeps: what later batches made needless is deleted, and what is left is all that is needed."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connectors.observation import Kind
from tests.eventually import eventually
from tests.spark.test_pipeline import BOOTSTRAP, Pipeline, leaderless, led, told_is

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]


def test_the_state_of_batches_long_past_is_deleted_and_a_restart_goes_on_from_the_rest(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = Pipeline(spark, tmp_path)
    pipeline.go()
    changes = pipeline.checkpoint.spark / "state" / "0" / "0"

    def tidied() -> None:
        pipeline.observe(Kind.UNSEEN, *map(leaderless, BOOTSTRAP))
        pipeline.told()
        assert list(changes.glob("*.zip")), "what the first batches came to"
        assert not (changes / "1.changelog").exists(), "it would grow with each batch for ever"

    for _ in range(8):
        pipeline.observe(Kind.UNSEEN, *map(leaderless, BOOTSTRAP))
    eventually(told_is(pipeline, ("no-leader", "firing")), within_s=60)
    eventually(tidied, within_s=120)
    assert not list(changes.rglob(".*.crc")), "what is deleted leaves its checksum behind"

    assert pipeline.query is not None
    pipeline.query.stop()
    pipeline.go()
    for _ in range(14):
        pipeline.observe(Kind.QUORUM, led())
    eventually(told_is(pipeline, ("no-leader", "firing"), ("no-leader", "resolved")), within_s=60)
    pipeline.stop()
