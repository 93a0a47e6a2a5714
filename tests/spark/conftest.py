import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming.pipeline.source import JournalSource
from streaming.pipeline.spark_session import session

OFTEN = {
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
}
"""State is tidied up after a few batches, and not after minutes."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One real local Spark for all tests that need no Spark of their own."""
    with warnings.catch_warnings():
        # Py4J leaves sockets to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        logs: Path = tmp_path_factory.mktemp("spark")
        spark = session(master="local[2]", logs=logs, settings=OFTEN)
        spark.dataSource.register(JournalSource)
        yield spark
        spark.stop()
