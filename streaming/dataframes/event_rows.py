"""The events of observations as rows of a DataFrame: columns for partition events, JSON for all others."""

from collections.abc import Sequence
from typing import Any, Final

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

from connectors.event_columns import EventColumns
from connectors.observation import Observation
from streaming.replay.decoded_row import decoded_row
from streaming.replay.observed_events import each_event

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


def event_batch(rows: Sequence[Observation]) -> pa.RecordBatch:
    """Returns the events of observations, in order, with the columns of EVENT."""
    columns: dict[str, list[Any]] = {name: [] for name in EVENT.names}
    for row in rows:
        decoded = decoded_row(row)
        events = EventColumns(each_event(decoded.events)).columns()
        keys = {"cluster": row.cluster, "sequence": decoded.sequence, "observed_at_ms": decoded.observed_at_ms}
        count = len(events["ordinal"])
        for name, values in columns.items():
            values += [keys[name]] * count if name in keys else events[name]
    arrays = [pa.array(columns[field.name], type=field.type) for field in EVENT_ARROW]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENT_ARROW)
