"""The events of observations as rows of a DataFrame: columns for partition events, JSON for all others."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from connectors.observations.log_event import LogAdvanced, PartitionChanged, PartitionSet, RecordPosition, Undecodable
from connectors.observations.observation import Event, Observation, to_json
from connectors.observations.partition_run import each_event
from streaming.replay.decoded_row import decoded_row

EVENT = StructType(
    [
        StructField("cluster", StringType(), nullable=False),
        StructField("sequence", LongType(), nullable=False),
        StructField("observed_at_ms", LongType(), nullable=False),
        StructField("ordinal", IntegerType(), nullable=False),
        StructField("type", StringType(), nullable=False),
        StructField("offset", LongType()),
        StructField("leader_epoch", IntegerType()),
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
        StructField("body", BinaryType()),
    ]
)
EVENT_ARROW: Final = to_arrow_schema(EVENT)
_PARTITION: Final = EVENT.names[EVENT.names.index("topic_id") : -1]
"""The columns of partition events; in a PartitionChanged, None is unchanged."""


def event_batch(rows: Sequence[Observation]) -> pa.RecordBatch:
    """Returns the events of observations, in order, with the columns of EVENT."""
    table: list[dict[str, object]] = []
    for row in rows:
        decoded = decoded_row(row)
        keys = {"cluster": row.cluster, "sequence": decoded.sequence, "observed_at_ms": decoded.observed_at_ms}
        table += [
            {**keys, "ordinal": ordinal, **event_row(event)} for ordinal, event in enumerate(each_event(decoded.events))
        ]
    return pa.RecordBatch.from_pylist(table, schema=EVENT_ARROW)


def event_row(event: Event) -> dict[str, object]:
    """Returns the columns of an event that are not null, without its keys."""
    if isinstance(event, PartitionSet | PartitionChanged):
        values: dict[str, object] = {name: getattr(event, name) for name in _PARTITION if hasattr(event, name)}
        return {"type": event.type, **_position(event.at), "leader_set": True, **values}
    row: dict[str, object] = {"type": event.type, "snapshot": False, "body": to_json(event)}
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


def _position(at: RecordPosition) -> dict[str, object]:
    return {
        "offset": at.offset,
        "leader_epoch": at.leader_epoch,
        "timestamp_ms": at.timestamp_ms,
        "snapshot": at.snapshot,
    }
