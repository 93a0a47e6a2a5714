"""What kraftwatch uses of Spark beside its public interface is still there (docs/spark.md names the other tests)."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming.dataframes.export import EXPORT_SETTINGS
from streaming.pipeline.spark import planner_connection
from streaming.pipeline.spark.spark_session import SETTINGS
from tests.spark.pipeline_run import PipelineRun

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]


READ_BY_NAME = {
    "spark.sql.streaming.checkpointFileManagerClass",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
}
"""Settings that Spark has not registered: what uses them takes them from all settings."""


@pytest.mark.parametrize(
    "name",
    sorted(name for name in {*SETTINGS, *EXPORT_SETTINGS} - READ_BY_NAME if name.startswith("spark.sql.")),
)
def test_spark_knows_each_setting_of_sql(spark: SparkSession, name: str) -> None:
    """An unknown setting has no effect, and no error."""
    assert spark.conf.isModifiable(name)


def test_spark_starts_the_planner_by_the_script(spark: SparkSession, tmp_path: Path) -> None:
    run = PipelineRun(spark, tmp_path)
    run.start()
    run.batch(run.have_a_leader)

    assert [words for words in command_lines() if words[1:3] == ["-m", planner_connection.__name__]]

    run.close()


def command_lines() -> list[list[str]]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.append((process / "cmdline").read_bytes().decode(errors="replace").split("\0"))
        except OSError:
            # It has ended.
            continue
    return found
