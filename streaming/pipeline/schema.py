"""The schemas of Spark's rows: observation, event, the step's output, the state.

The observation row is `connectors.observation.Observation`, the event row `connectors.event_columns.EventColumns`
behind its keys: a test holds them equal. State is one binary column, a versioned blob: array and
map columns in state crash Spark 4.2, and a restart refuses a column whose type has changed.
"""

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

OBSERVATION = StructType(
    [
        StructField("cluster", StringType(), nullable=False),
        StructField("kind", StringType(), nullable=False),
        StructField("observed_at_ms", LongType(), nullable=False),
        StructField("base_offset", LongType()),
        StructField("last_offset", LongType()),
        StructField("leader_epoch", IntegerType()),
        StructField("high_watermark", LongType()),
        StructField("payload", BinaryType(), nullable=False),
        StructField("sequence", LongType(), nullable=False),
    ]
)

EVENT = StructType(
    [
        StructField("cluster", StringType(), nullable=False),
        StructField("shard", IntegerType(), nullable=False),
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

PACKED = StructType(
    [
        StructField("cluster", StringType(), nullable=False),
        StructField("shard", IntegerType(), nullable=False),
        StructField("events", BinaryType(), nullable=False),
    ]
)
"""Events between decoding and the step: `streaming.pipeline.packed_events`."""

OUTPUT = StructType(
    [
        StructField("kind", StringType(), nullable=False),
        StructField("cluster", StringType(), nullable=False),
        StructField("name", StringType(), nullable=False),
        StructField("body", StringType(), nullable=False),
    ]
)
"""The rows that the step yields: `streaming.pipeline.output_rows` documents each kind."""

STATE = StructType([StructField("state", BinaryType(), nullable=False)])
