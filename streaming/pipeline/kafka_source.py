"""The relay's topic as the source of the query, read by Spark's own Kafka source (spark-sql-kafka-0-10).

A message becomes the events of its row, as a row of the journal does. Skipped are rows of clusters that are not
monitored, rows of a baseline with which the state does not begin, and rows that the same task has read already: after a
crash of the relay a row may be in the topic twice. Whatever is no message of a relay goes to quarantine, and the stream
continues.

Spark reads a repeated batch by its recorded offsets: the topic keeps its messages, so it gets the same rows.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState

from connectors.errors import UndecodableError
from connectors.event_columns import EventColumns
from connectors.log_event import Undecodable
from connectors.observation import Observation
from connectors.relay.relay_message import parse_message
from connectors.sinks.sink_config import KafkaTopic
from streaming.pipeline.decode import decode_batches, event_table
from streaming.pipeline.frame_rows import decoded_rows
from streaming.pipeline.kafka_options import REDACTION, connection_options
from streaming.pipeline.output_rows import OutputRow, quarantine_row
from streaming.pipeline.packed_events import EventPacker
from streaming.pipeline.python_worker import begin_task
from streaming.pipeline.schema import OUTPUT, PACKED
from streaming.pipeline.source import observations_to_arrow
from streaming.pipeline.step import Step

PARTITION = "topic partition "
"""With its number: stands for the cluster of messages that are none of a relay. No cluster's name has a space."""
_ROWS_AT_ONCE = 1_000
_BYTES_AT_ONCE = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    """What the query reads."""

    topic: KafkaTopic
    rows_per_batch: int
    """maxOffsetsPerTrigger: a backlog is read in bounded batches."""
    starting_offsets: Mapping[int, int]
    """Where a new query begins, by partition; -1 for the end."""
    baselines: Mapping[str, int] = field(default_factory=dict)
    """The monitored clusters: rows of an older baseline are skipped."""

    def events(self, spark: SparkSession) -> DataFrame:
        """Returns the stream of events.

        Raises:
            UsageError: a file of the login cannot be read.
        """
        messages = (
            spark.readStream.format("kafka")
            .options(**connection_options(self.topic))
            .option("subscribe", self.topic.topic)
            .option("startingOffsets", json.dumps({self.topic.topic: dict(self.starting_offsets)}))
            .option("maxOffsetsPerTrigger", self.rows_per_batch)
            .option("includeHeaders", "true")
            # Without the rows that retention has deleted, the log would have a gap.
            .option("failOnDataLoss", "true")
            .load()
        )
        columns = messages.select(
            "key", "value", "headers", "partition", "offset", F.unix_millis("timestamp").alias("at_ms")
        )
        return columns.mapInArrow(EventPacker(MessageDecoder(self.baselines)), PACKED)


def kafka_settings(jars: Sequence[Path], settings: Mapping[str, str]) -> Mapping[str, str]:
    """Returns Spark's settings with those of the Kafka source added; the given ones win."""
    paths = [*filter(None, [settings.get("spark.jars")]), *map(str, jars)]
    return {
        # An idle query asks the brokers for the topic's end after each pause.
        "spark.sql.streaming.pollingDelay": "100ms",
        **REDACTION,
        **settings,
        "spark.jars": ",".join(paths),
    }


class MessageDecoder:
    """`mapInArrow`: batches of messages to batches of `schema.EVENT`. Spark pickles it: it holds settings only."""

    def __init__(self, baselines: Mapping[str, int]) -> None:
        """`baselines` as in `TopicSource`."""
        self._baselines = dict(baselines)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decodes the messages of one task, in the order of their offsets."""
        begin_task()
        newest: dict[str, int] = {}
        for batch in batches:
            for rows, unreadable in self._chunks(batch, newest):
                if rows:
                    yield from decode_batches(iter([observations_to_arrow(rows)]))
                yield from unreadable

    def _chunks(
        self, batch: pa.RecordBatch, newest: dict[str, int]
    ) -> Iterator[tuple[Sequence[Observation], Sequence[pa.RecordBatch]]]:
        rows: list[Observation] = []
        unreadable: list[pa.RecordBatch] = []
        size = 0
        for message in batch.to_pylist():
            try:
                row = self._row(message, newest)
            except UndecodableError as problem:
                unreadable.append(_unreadable(message, str(problem)))
                continue
            if row is not None:
                rows.append(row)
                size += len(row.payload)
            if len(rows) >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
                yield rows, ()
                rows, size = [], 0
        yield rows, unreadable

    def _row(self, message: Mapping[str, Any], newest: dict[str, int]) -> Observation | None:
        """Returns the row of a message; None for a row that is skipped."""
        headers = [(each["key"], each["value"]) for each in message["headers"] or ()]
        read = parse_message(message["key"], message["value"], headers)
        row = read.observation
        required = self._baselines.get(row.cluster)
        if required is None or read.baseline.sequence < required or row.sequence <= newest.get(row.cluster, -1):
            return None
        newest[row.cluster] = row.sequence
        return row


def _unreadable(message: Mapping[str, Any], reason: str) -> pa.RecordBatch:
    """Returns one Undecodable event; the topic's offset is its sequence."""
    row = {
        "cluster": f"{PARTITION}{message['partition']}",
        "sequence": message["offset"],
        "observed_at_ms": message["at_ms"] or 0,
    }
    event = Undecodable(offset=message["offset"], reason=reason, length=len(message["value"] or b""))
    return event_table(row, EventColumns([event]))


class TopicStep:
    """The step for events of a topic: messages that are none of a relay have no cluster, and become quarantine rows."""

    def __init__(self, step: Step) -> None:
        """`step` is that of the clusters."""
        self._step = step

    def __call__(
        self, key: tuple[str, int], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """As `Step`; a partition's messages leave no state."""
        cluster, _ = key
        if not cluster.startswith(PARTITION):
            yield from self._step(key, frames, state)
            return
        for frame in frames:
            yield pd.DataFrame([*_quarantine_rows(cluster, frame)], columns=OUTPUT.fieldNames())


def _quarantine_rows(partition: str, frame: pd.DataFrame) -> Iterator[OutputRow]:
    for row, event in ((one, event) for one in decoded_rows([frame]) for event in one.events):
        if isinstance(event, Undecodable):
            yield quarantine_row(
                partition,
                f"offset-{event.offset}",
                sequence=row.sequence,
                observed_at_ms=row.observed_at_ms,
                offset=event.offset,
                length=event.length,
                reason=event.reason,
            )
