"""The schemas of Spark's rows: observation, the step's output, the state.

The observation row is `connectors.observations.observation.Observation`: a test holds them equal. State is one binary
column, a versioned blob: array and map columns in state crash Spark 4.2, and a restart refuses a column whose type has
changed.
"""

from pyspark.sql.types import (
    BinaryType,
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

PACKED = StructType(
    [
        StructField("cluster", StringType(), nullable=False),
        StructField("shard", IntegerType(), nullable=False),
        StructField("observation", BinaryType(), nullable=False),
    ]
)
"""An observation on its way to the step: `streaming.pipeline.packed_observations`."""

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
