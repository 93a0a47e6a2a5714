"""A real Spark that the tests share, and the errors that its users read."""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streaming.dataframes import register
from streaming.pipeline.source import JournalSource
from streaming.pipeline.spark.spark_session import start_spark

FREQUENT_MAINTENANCE = {
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
}
"""Spark deletes old state after a few batches instead of minutes."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A real local Spark, shared by all tests that do not start one themselves."""
    with warnings.catch_warnings():
        # Py4J leaves sockets to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        logs: Path = tmp_path_factory.mktemp("spark")
        spark = start_spark(master="local[2]", logs=logs, settings=FREQUENT_MAINTENANCE)
        spark.dataSource.register(JournalSource)
        yield spark
        spark.stop()


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """The same Spark with the formats that users register; afterwards the job's own format is back."""
    register(spark)
    yield spark
    spark.dataSource.register(JournalSource)


def sentence_of(failing: Callable[[], object]) -> str:
    """Returns the last line that Spark shows of a Python error."""
    with pytest.raises(PySparkException) as raised:
        failing()
    return [line for line in str(raised.value).splitlines() if "SQLSTATE" not in line and line.strip()][-1]
