"""The tables of a job as DataFrames: alerts, observations, events and audits, wherever the job keeps them.

Alerts and audits are in its database: SQLite or PostgreSQL. Observations and events are in its journal, or in the topic
of a relay. docs/dataframes.md describes each column.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructField, StructType, TimestampType

from connectors.errors import UsageError
from connectors.observations.observation import unpacked
from connectors.sinks.alert_json import compact_json
from connectors.store.alert_store import AlertRecord, AlertStore
from connectors.store.audit_results import AuditResults, ContractResult
from connectors.store.database import Database
from connectors.store.store_place import StorePlace
from connectors.store.stored_json import json_safe
from connectors.store.tables import job_database
from streaming.config import Config
from streaming.dataframes.journal_dataframe import EVENT, JournalDataFrameSource, arrow_rows, require_journal
from streaming.dataframes.metadata_log_source import timestamp_us
from streaming.pipeline.arrow_schema import arrow_schema
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.schema import OBSERVATION, REFUSED
from streaming.pipeline.topic_batch import TopicCluster
from streaming.pipeline.topic_source import TopicSource

RecordT = TypeVar("RecordT")
Columns: TypeAlias = Mapping[str, tuple[DataType, Callable[[RecordT], object]]]
"""The columns of a table: the type of each, and how it is read."""
_TEXT, _LONG, _TIME, _TEXTS = StringType(), LongType(), TimestampType(), ArrayType(StringType())
_ALERTS: Columns[AlertRecord] = {
    "number": (_LONG, lambda record: record.number),
    "cluster": (_TEXT, lambda record: _utf8(record.alert.cluster)),
    "cluster_id": (_TEXT, lambda record: _utf8(record.alert.cluster_id)),
    "rule": (_TEXT, lambda record: _utf8(record.alert.rule)),
    "subject": (_TEXT, lambda record: _utf8(record.alert.subject)),
    "severity": (_TEXT, lambda record: record.alert.severity.value),
    "state": (_TEXT, lambda record: record.alert.state.value),
    "summary": (_TEXT, lambda record: _utf8(record.alert.summary)),
    "evidence": (_TEXT, lambda record: compact_json(json_safe(record.alert.evidence)).decode()),
    "remedy": (_TEXTS, lambda record: [_utf8(line) for line in record.alert.remedy]),
    "started_at": (_TIME, lambda record: timestamp_us(record.alert.started_at_ms)),
    "observed_at": (_TIME, lambda record: timestamp_us(record.alert.observed_at_ms)),
    "sent_at": (_TIME, lambda record: timestamp_us(record.recorded_at_ms)),
    "offset": (_LONG, lambda record: record.alert.offset),
    "fingerprint": (_TEXT, lambda record: record.alert.fingerprint),
    "incident": (_TEXT, lambda record: record.incident),
}
_AUDITS: Columns[ContractResult] = {
    "audited_at": (_TIME, lambda result: timestamp_us(result.audited_at_ms)),
    "suite": (_TEXT, lambda result: result.suite),
    "contract": (_TEXT, lambda result: result.contract),
    "severity": (_TEXT, lambda result: result.severity.value),
    "checked_rows": (_LONG, lambda result: result.checked_rows),
    "broken_rows": (_LONG, lambda result: result.broken_rows),
    "clusters": (_TEXTS, lambda result: [_utf8(name) for name in result.clusters]),
    "example": (_TEXT, lambda result: None if result.example is None else _utf8(result.example)),
}


def _schema(columns: Columns[Any]) -> StructType:
    return StructType(
        [
            StructField(name, type_, nullable=type_ is _TIME or name in ("offset", "example"))
            for name, (type_, _) in columns.items()
        ]
    )


SCHEMAS: Final[Mapping[str, StructType]] = {
    "alerts": _schema(_ALERTS),
    "observations": OBSERVATION,
    "events": EVENT,
    "audits": _schema(_AUDITS),
}
"""By the name of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTables:
    """Where a job keeps its data."""

    store: StorePlace
    observations: Path | TopicSource
    """The journal's folder, or a relay's topics."""

    @staticmethod
    def of_folder(checkpoint: Path) -> "JobTables":
        """Returns the tables of a checkpoint folder."""
        return JobTables(store=checkpoint.absolute(), observations=Checkpoint(folder=checkpoint.absolute()).journal)

    @staticmethod
    def of_config(config: Config) -> "JobTables":
        """Returns the tables of a configured job; UsageError if the id of a cluster is not known."""
        checkpoint = Checkpoint(folder=config.folder.absolute(), store=config.server)
        if config.relay is None or config.source != "kafka":
            return JobTables(store=config.store_place, observations=checkpoint.journal)
        ids = {cluster.name: cluster.cluster_id for cluster in config.watched} | checkpoint.cluster_ids()
        clusters = {}
        for name in (cluster.name for cluster in config.watched):
            cluster_id = ids[name]
            if cluster_id is None:
                raise UsageError(f"cluster {name}: its id is not known: set its cluster_id, or start the job first")
            topic = config.relay.topic_of(name)
            clusters[name] = TopicCluster(topic=topic, cluster_id=cluster_id, baseline=0)
        source = TopicSource(
            connection=config.relay,
            starting_offsets={cluster.topic: {} for cluster in clusters.values()},
            clusters=clusters,
        )
        return JobTables(store=config.store_place, observations=source)

    def require(self, names: Iterable[str]) -> None:
        """Checks, without Spark, that these tables can be read; else a UsageError or a StoreError."""
        if isinstance(self.observations, Path) and {"observations", "events"} & {*names}:
            require_journal(self.observations)
        if self._database.exists:
            with self._database.reading():
                pass

    def read(self, spark: SparkSession, table: str, since_ms: int = 0) -> DataFrame:
        """Returns a table; of observations and events, at least the rows that were observed since then.

        Raises:
            UsageError: there is no such table or no journal, or a file of the topic's login cannot be read.
            StoreError: the database cannot be read.
        """
        match table:
            case "alerts":
                return self._stored(spark, table, _ALERTS, AlertStore(self._database).alerts())
            case "audits":
                return self._stored(spark, table, _AUDITS, AuditResults(self._database).all())
            case "observations" | "events":
                return self._observed(spark, since_ms, events=table == "events")
            case _:
                raise UsageError(f"there is no table {table}: the tables are {', '.join(SCHEMAS)}")

    @property
    def _database(self) -> Database:
        return job_database(self.store, read_only=True)

    @staticmethod
    def _stored(spark: SparkSession, table: str, columns: Columns[RecordT], records: Iterable[RecordT]) -> DataFrame:
        # Few and read at once, in the driver: a password of the store stays in this process.
        rows = [{name: read(record) for name, (_, read) in columns.items()} for record in records]
        schema = SCHEMAS[table]
        return spark.createDataFrame(pa.Table.from_pylist(rows, schema=arrow_schema(schema)), schema)

    def _observed(self, spark: SparkSession, since_ms: int, *, events: bool) -> DataFrame:
        schema = EVENT if events else OBSERVATION
        if isinstance(self.observations, Path):
            reader = spark.read.format(JournalDataFrameSource.NAME).option("events", str(events).lower())
            rows = reader.load(str(self.observations))
            return rows.where(F.col("observed_at_ms") >= since_ms) if since_ms else rows
        unpack = partial(_unpacked_rows, since_ms=since_ms, events=events)
        return self.observations.recorded(spark, since_ms).mapInArrow(unpack, schema)


def _unpacked_rows(batches: Iterator[pa.RecordBatch], *, since_ms: int, events: bool) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(EVENT if events else OBSERVATION)
    for batch in batches:
        packed = zip(batch.column("group").to_pylist(), batch.column("observation").to_pylist(), strict=True)
        # What is refused has no cluster.
        rows = (unpacked(value) for group, value in packed if group != REFUSED)
        if wanted := [row for row in rows if row.observed_at_ms >= since_ms]:
            yield arrow_rows(wanted, schema, events=events)


def _utf8(text: str) -> str:
    """Returns the text with each half of a surrogate pair, which UTF-8 cannot encode, as its JSON escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
