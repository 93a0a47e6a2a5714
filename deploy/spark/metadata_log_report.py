"""`spark-submit metadata_log_report.py LOG`: unclean elections by topic in the log's last week, and who led when.

LOG is a metadata log directory of a controller or broker, a `.log` segment, or several of them. docs/dataframes.md
describes the columns.
"""

import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from streaming.dataframes import register


def newest(log: DataFrame) -> Any:
    """Returns the timestamp of the newest record."""
    return log.select(f.max("timestamp")).collect()[0][0]


def unclean_elections(log: DataFrame, *, days: int = 7) -> DataFrame:
    """Returns the unclean elections of the log's last days by topic: the new leader was not in sync."""
    end = newest(log)
    return (
        log.where(~f.col("snapshot"))
        .where(f.col("type") == "PARTITION_CHANGE_RECORD")
        .where(f.col("leader_recovery_state") == 1)
        .where(f.col("timestamp") > f.lit(end) - f.make_interval(days=f.lit(days)))
        .groupBy("topic")
        .agg(
            f.count("*").alias("elections"),
            f.countDistinct("partition").alias("partitions"),
            f.max("timestamp").alias("newest"),
        )
        .orderBy(f.desc("elections"), "topic")
    )


def leaders(log: DataFrame) -> DataFrame:
    """Returns the leaders of the quorum with the time from which each led, and for how long."""
    records = log.where(~f.col("snapshot"))
    end = newest(records)
    following = f.lead("timestamp").over(Window.orderBy("offset"))
    return (
        records.where(f.col("type") == "LeaderChange")
        .select("leader", "leader_epoch", "offset", "timestamp", f.coalesce(following, f.lit(end)).alias("until"))
        .withColumn("seconds", f.round(f.col("until").cast("double") - f.col("timestamp").cast("double"), 1))
        .withColumnRenamed("timestamp", "since")
        .orderBy("offset")
    )


if __name__ == "__main__":
    spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    register(spark)
    metadata = spark.read.format("kraft-metadata").load(sys.argv[1:])
    unclean_elections(metadata).show(5, truncate=False)
    leaders(metadata).show(truncate=False)
    spark.stop()
