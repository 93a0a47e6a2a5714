"""Batch DataFrames of metadata logs and journals, for any Spark session: `register(spark)` makes the formats known."""

from pyspark.sql import SparkSession

from streaming.dataframes.journal_dataframe import JournalDataFrameSource
from streaming.dataframes.metadata_log_source import MetadataLogSource


def register(spark: SparkSession) -> None:
    """Makes the formats `kraft-metadata` and `kraftwatch-journal` known to a session."""
    spark.dataSource.register(MetadataLogSource)
    spark.dataSource.register(JournalDataFrameSource)
