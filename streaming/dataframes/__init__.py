"""Batch DataFrames of metadata logs and journals, for any Spark session: `register(spark)` makes the formats known."""

from pyspark.sql import SparkSession

from streaming.dataframes.journal_dataframe import JournalDataFrameSource
from streaming.dataframes.metadata_log_source import MetadataLogSource
from streaming.dataframes.pushed_filters import enable_filters


def register(spark: SparkSession) -> None:
    """Makes the formats `kraft-metadata` and `kraftwatch-journal` known to a session, and has it pass conditions."""
    enable_filters(spark)
    spark.dataSource.register(MetadataLogSource)
    spark.dataSource.register(JournalDataFrameSource)
