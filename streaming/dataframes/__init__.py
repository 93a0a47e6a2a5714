"""Batch DataFrames of metadata logs and journals, for any Spark session: `register(spark)` makes the formats known."""

from pyspark.sql import SparkSession

from streaming.dataframes.journal_dataframe import JournalDataFrameSource
from streaming.dataframes.metadata_log_source import MetadataLogSource

FILTER_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""Spark's setting without which it refuses a Python data source that uses filters."""


def register(spark: SparkSession) -> None:
    """Makes the formats `kraft-metadata` and `kraftwatch-journal` known to a session, and turns on filter pushdown."""
    spark.conf.set(FILTER_PUSHDOWN, "true")
    spark.dataSource.register(MetadataLogSource)
    spark.dataSource.register(JournalDataFrameSource)
