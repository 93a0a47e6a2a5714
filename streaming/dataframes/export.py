"""`export`: appends what is new in a job's tables to parquet files, partitioned by cluster and date.

The rows of one table and date are one job of Spark, which moves finished files to their place: a reader finds a file
whole or not at all. There is one file for each cluster and date. The dates are written in their order, so that what is
there of a cluster is always the beginning of its rows, also after an export that was killed: the next one continues
behind the newest row that is there, and needs no notes of its own.

Nothing is overwritten: the job deletes old rows, so a date that is written again would lose some.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructField, StructType

from rules.formatting import plural
from streaming.dataframes.job_tables import SCHEMAS, JobTables

EXPORT_SETTINGS: Final[Mapping[str, str]] = {
    # A rename of each finished file in the driver, one after the other; version 2 renames while tasks still write.
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "1",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    # Spark's default, INT96, has no zone for other readers, and those that count nanoseconds read a time beyond 2262
    # as one of another year.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Large batches, unlike the job's: generated code pays.
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.driver.memory": "1g",
}
"""Settings of the session."""
_DATE: Final = "date"
_PARTITION = re.compile(r"/(cluster=[^/]*)/date=(\d{4}-\d\d-\d\d)/[^/]*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """How the rows of a table are identified and where they are."""

    time: str
    """The column whose date is the row's."""
    key: tuple[str, ...]
    """The columns that identify a row, and their order."""
    by_cluster: bool = True

    @property
    def partitions(self) -> list[str]:
        """The columns that are folders."""
        return ["cluster", _DATE] if self.by_cluster else [_DATE]


_LAYOUTS: Final[Mapping[str, _Layout]] = {
    "alerts": _Layout(time="observed_at", key=("number", "sent_at")),
    "observations": _Layout(time="observed_at_ms", key=("observed_at_ms", "sequence")),
    "events": _Layout(time="observed_at_ms", key=("observed_at_ms", "sequence")),
    "audits": _Layout(time="audited_at", key=("audited_at", "contract"), by_cluster=False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableExport:
    """The export of one table of a job."""

    spark: SparkSession
    tables: JobTables
    table: str
    to: str
    """The URI of the folder of all tables."""
    since_ms: int | None = None
    """The rows that are wanted: since <= time < until, in milliseconds since the Unix epoch; None: no bound."""
    until_ms: int | None = None

    def check(self) -> None:
        """Reads what is there, so that a place that Spark cannot read is reported first."""
        self._there()

    def run(self, say: Callable[[str], None]) -> int:
        """Appends the new rows; returns how many, of `events` the number of their observations."""
        written = 0
        for date, since_ms, rows in self._plan():
            say(f"{self.table} of {date}: {plural(rows, 'new row' if self.table != 'events' else 'observation')}")
            new = self._new(self._dated(self.tables.read(self.spark, self.table, since_ms)))
            self._write(new.where(F.col(_DATE) == F.lit(date).cast(DateType())))
            written += rows
        return written

    @property
    def _layout(self) -> _Layout:
        return _LAYOUTS[self.table]

    def _plan(self) -> Iterator[tuple[str, int, int]]:
        """Yields each date with new rows, the time of the first of them in milliseconds (or 0), and their number."""
        observed = self._layout.time == "observed_at_ms"
        since_ms = self.since_ms or 0
        # Events are planned by their observations: nothing is decoded twice.
        source = self.tables.read(self.spark, "observations" if observed else self.table, since_ms)
        first = F.min("observed_at_ms") if observed else F.lit(0)
        found = self._new(self._dated(source)).groupBy(_DATE).agg(first.alias("first"), F.count("*").alias("rows"))
        for row in sorted(found.collect(), key=lambda one: one[_DATE]):
            yield str(row[_DATE]), int(row["first"]), int(row["rows"])

    def _dated(self, rows: DataFrame) -> DataFrame:
        time = self._layout.time
        at = F.timestamp_millis(time) if time.endswith("_ms") else F.col(time)
        for bound, compared in ((self.since_ms, F.col(time).__ge__), (self.until_ms, F.col(time).__lt__)):
            if bound is not None:
                rows = rows.where(compared(bound if time.endswith("_ms") else F.timestamp_millis(F.lit(bound))))
        return rows.withColumn(_DATE, F.to_date(at))

    def _new(self, rows: DataFrame) -> DataFrame:
        """Returns the rows that are not there yet."""
        there, layout = self._there(), self._layout
        if there is None:
            return rows
        if layout.time != "observed_at_ms":
            return rows.join(there.select(*layout.key), [*layout.key], "left_anti")
        # Sequences begin again in a new journal; the time of a cluster's rows never goes back.
        newest = there.groupBy("cluster").agg(F.max(F.struct(*layout.key)).alias("newest"))
        joined = rows.join(F.broadcast(newest), "cluster", "left")
        return joined.where(F.col("newest").isNull() | (F.struct(*layout.key) > F.col("newest"))).drop("newest")

    def _there(self) -> DataFrame | None:
        """Returns the rows that are there; of observations and events at least the newest ones of each cluster."""
        schema = StructType([*SCHEMAS[self.table], StructField(_DATE, DateType())])
        try:
            there = self.spark.read.schema(schema).parquet(f"{self.to}/{self.table}")
        except AnalysisException as problem:
            if problem.getCondition() == "PATH_NOT_FOUND":
                return None
            raise
        newest: dict[str, str] = {}
        for file in there.inputFiles():
            if (found := _PARTITION.search(file)) is not None:
                newest[found[1]] = max(found[2], newest.get(found[1], ""))
        return there.where(F.col(_DATE) >= min(newest.values())) if newest else there

    def _write(self, rows: DataFrame) -> None:
        layout = self._layout
        order = [name for name in (*layout.partitions, *layout.key, "ordinal") if name in rows.columns]
        whole = rows.repartition("cluster") if layout.by_cluster else rows.coalesce(1)
        writer = whole.sortWithinPartitions(*order).write.mode("append").partitionBy(*layout.partitions)
        writer.parquet(f"{self.to}/{self.table}")
