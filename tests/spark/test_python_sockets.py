"""How Python workers connect to Java."""

import os
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_workers_of_a_local_master_use_unix_sockets(spark: SparkSession) -> None:
    def workers_sockets(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"unix": [os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "false").lower()]})

    (row,) = spark.range(1).mapInArrow(workers_sockets, "unix string").collect()

    assert row.unix == "true"
