"""`spark.read.format("kraftwatch-journal").load(JOURNAL)`: a journal as a batch DataFrame of observations or events."""

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from connectors.errors import UsageError
from connectors.observations.log_event import LogAdvanced, PartitionChanged, PartitionSet, Undecodable
from connectors.observations.observation import Event, Observation, event_type, to_json
from connectors.observations.partition_run import each_event
from connectors.store.journal_reader import JournalReader, RowFilter
from rules.model.membership import RecordPosition
from streaming.dataframes.metadata_log_source import local_path, require_columns, timestamp_us
from streaming.dataframes.pushed_filters import Bounds, bounds, wanted
from streaming.pipeline.arrow_schema import arrow_schema
from streaming.pipeline.schema import OBSERVATION
from streaming.pipeline.source import JournalSource, JournalStreamReader, observations_to_arrow
from streaming.replay.decoded_row import decoded_row

EVENT = StructType(
    [
        StructField("cluster", StringType(), nullable=False),
        StructField("sequence", LongType(), nullable=False),
        StructField("observed_at", TimestampType()),
        StructField("observed_at_ms", LongType(), nullable=False),
        StructField("ordinal", IntegerType(), nullable=False),
        StructField("type", StringType(), nullable=False),
        StructField("offset", LongType()),
        StructField("leader_epoch", IntegerType()),
        StructField("timestamp", TimestampType()),
        StructField("timestamp_ms", LongType()),
        StructField("snapshot", BooleanType()),
        StructField("topic_id", StringType()),
        StructField("partition", IntegerType()),
        StructField("replicas", ArrayType(IntegerType())),
        StructField("isr", ArrayType(IntegerType())),
        StructField("elr", ArrayType(IntegerType())),
        StructField("last_known_elr", ArrayType(IntegerType())),
        StructField("leader", IntegerType()),
        StructField("leader_set", BooleanType()),
        StructField("partition_leader_epoch", IntegerType()),
        StructField("partition_epoch", IntegerType()),
        StructField("recovering", BooleanType()),
        StructField("directories", ArrayType(StringType())),
        StructField("body", StringType()),
    ]
)
"""The columns with `.option("events", "true")`; docs/dataframes.md describes each."""
_PARTITION: Final = EVENT.names[EVENT.names.index("topic_id") : -1]
"""The columns of partition events; in a PartitionChanged, None is unchanged."""
ROWS_PER_TASK: Final = 20_000
ROWS_PER_BATCH: Final = 500
"""Observation rows that are decoded at once: one of them may hold a piece of a snapshot."""


def event_rows(rows: Iterable[Observation]) -> Iterator[dict[str, Any]]:
    """Yields the columns of the events of observations, in order; a column that is left out is null."""
    for row in rows:
        decoded = decoded_row(row)
        for ordinal, event in enumerate(each_event(decoded.events)):
            columns = event_columns(event)
            yield {
                "cluster": row.cluster,
                "sequence": decoded.sequence,
                "observed_at": timestamp_us(decoded.observed_at_ms),
                "observed_at_ms": decoded.observed_at_ms,
                "ordinal": ordinal,
                "timestamp": timestamp_us(columns.get("timestamp_ms")),
                **columns,
            }


def event_columns(event: Event) -> dict[str, Any]:
    """Returns the columns of an event that are not null, without its keys and its time as a timestamp."""
    if isinstance(event, PartitionSet | PartitionChanged):
        values = {name: getattr(event, name) for name in _PARTITION if hasattr(event, name)}
        return {"type": event_type(event), **_position(event.at), "leader_set": True, **values}
    row: dict[str, Any] = {"type": event_type(event), "snapshot": False, "body": to_json(event).decode()}
    if isinstance(event, LogAdvanced):
        return row | {
            "offset": event.last_offset,
            "leader_epoch": event.leader_epoch,
            "timestamp_ms": event.newest_timestamp_ms,
        }
    if isinstance(event, Undecodable):
        return row | {"offset": event.offset}
    at = getattr(event, "at", None)
    return row if at is None else row | _position(at)


def _position(at: RecordPosition) -> dict[str, Any]:
    return {
        "offset": at.offset,
        "leader_epoch": at.leader_epoch,
        "timestamp_ms": at.timestamp_ms,
        "snapshot": at.snapshot,
    }


class JournalDataFrameSource(JournalSource):
    """The format `kraftwatch-journal`, as a stream and as a batch.

    Options: `path` (`load(PATH)`): the journal's folder. For a batch also `events`: `true` for decoded events.
    """

    def schema(self) -> StructType:
        """Returns all columns; opens the journal, so that `load` reports a wrong path."""
        _journal(self.options)
        return _full_schema(self.options)

    def reader(self, schema: StructType) -> "JournalDataFrameReader":
        """Returns a reader of all rows that are published now."""
        require_columns(_full_schema(self.options), schema)
        return JournalDataFrameReader(_journal(self.options), schema, events=_events(self.options))

    def streamReader(self, schema: StructType) -> JournalStreamReader:
        """Returns the reader of a stream, which has the columns of an observation, and never commits.

        Only the job may commit: rows that another query has read may still be new to the job.
        """
        if schema != OBSERVATION:
            raise UsageError("a stream of kraftwatch-journal has all columns of an observation: drop events")
        return JournalStreamReader(_journal(self.options).directory, commits=False)


class JournalDataFrameReader(DataSourceReader):
    """Plans a task for every ROWS_PER_TASK rows, and reads them on any executor that can read the journal's folder."""

    def __init__(self, journal: JournalReader, schema: StructType, *, events: bool) -> None:
        """`events`: decode the observations."""
        self._journal = journal
        self._schema = schema
        self._events = events
        self._wanted = RowFilter()
        self._sequences = Bounds()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Reads only rows of the wanted clusters, kinds, times and sequences; Spark evaluates all conditions again."""
        observed = bounds(filters, "observed_at_ms")
        self._sequences = bounds(filters, "sequence")
        self._wanted = RowFilter(
            clusters=wanted(filters, "cluster"),
            kinds=wanted(filters, "kind"),
            from_ms=observed.low,
            to_ms=observed.high,
        )
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """Returns the tasks: of each, the first sequence and the one after the last."""
        begin, end = self._journal.beginning(), self._journal.published_end()
        if self._sequences.low is not None:
            begin = max(begin, self._sequences.low)
        if self._sequences.high is not None:
            end = min(end, self._sequences.high + 1)
        ranges = pairwise([*range(begin, end, ROWS_PER_TASK), end])
        return [InputPartition((start, stop)) for start, stop in ranges if start < stop]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a task."""
        # Spark calls this with None if there are no rows.
        if partition.value is None:
            return
        start, stop = partition.value
        rows = self._journal.select(start, stop, self._wanted)
        schema = arrow_schema(self._schema)
        while some := list(islice(rows, ROWS_PER_BATCH)):
            yield arrow_rows(some, schema, events=self._events)


def arrow_rows(rows: Sequence[Observation], schema: pa.Schema, *, events: bool) -> pa.RecordBatch:
    """Returns the requested columns of observations, or of the events that they decode to."""
    if events:
        return pa.RecordBatch.from_pylist([*event_rows(rows)], schema=schema)
    return observations_to_arrow(rows).select(schema.names).cast(schema)


def _events(options: MutableMapping[str, str]) -> bool:
    text = options.get("events", "false").lower()
    if text not in ("true", "false"):
        raise UsageError(f"invalid value '{text}' for events: expected true or false")
    return text == "true"


def _full_schema(options: MutableMapping[str, str]) -> StructType:
    return EVENT if _events(options) else OBSERVATION


def _journal(options: MutableMapping[str, str]) -> JournalReader:
    if not options.get("path"):
        raise UsageError("no path is given: use load(PATH) with a journal, the folder journal in a checkpoint")
    return require_journal(local_path(options["path"]))


def require_journal(folder: Path) -> JournalReader:
    """Returns the reader of an existing journal; UsageError if there is none, JournalError if it is damaged."""
    journal = JournalReader(folder)
    if not journal.created:
        raise UsageError(f"{folder} holds no journal: name the folder journal in the checkpoint of a kraftwatch job")
    journal.published_end()
    return journal
