"""The schemas of Spark's rows: observation, the processor's output, the state; and how they are packed.

The observation row is `connectors.observations.observation.Observation`: a test holds them equal. State is one binary
column: array and map columns in state crash Spark 4.2, and a restart refuses a column whose type has changed, but reads
columns with other names by their position (findings).

Spark's Python worker takes about a millisecond of CPU time for a group in a batch, however few rows it has: longer than
everything else that is done for a quiet cluster. So Spark groups by one of GROUPS numbers that the cluster's name
gives, and keeps the states of a group's clusters as one value. For the same reason an observation crosses Spark as one
binary value: each further column takes 60 us more in each group.
"""

import zlib
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from connectors.observations.observation import Observation, packed
from streaming.pipeline.arrow_schema import arrow_schema

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
        StructField("group", IntegerType(), nullable=False),
        StructField("observation", BinaryType(), nullable=False),
    ]
)
"""An observation on its way to the processor, as `pack` makes it."""

OUTPUT = StructType(
    [
        StructField("kind", StringType(), nullable=False),
        StructField("cluster", StringType(), nullable=False),
        StructField("name", StringType(), nullable=False),
        StructField("body", StringType(), nullable=False),
    ]
)
"""The rows that the processor yields: `streaming.pipeline.output_rows` documents each kind."""

STATE = StructType([StructField("state", BinaryType(), nullable=False)])
"""The states of the clusters of a group, as `pack_states` makes it."""

GROUPS: Final = 64
"""Of clusters. With fewer clusters, most groups have one or none. Fixed in every checkpoint."""
REFUSED: Final = -1
"""The group of messages that are no rows of a cluster; it has no state."""
PACKED_ARROW: Final = arrow_schema(PACKED)
_STATE_HEADER: Final = Struct(">HQ")
"""Lengths of a cluster's name and of its state, which follow."""


_NUMBERS_OF_GROUPS: Final = (
    *(0, 1, 2, 4, 5, 6, 7, 10, 12, 13, 15, 16, 17, 20, 21, 22, 24, 25, 28, 29, 30, 32, 33, 35, 36, 37, 38, 39, 41, 43),
    *(44, 49, 50, 52, 54, 57, 62, 64, 65, 67, 69, 73, 74, 75, 76, 80, 87, 98, 107, 109, 116, 138, 143, 148, 177, 183),
    *(186, 189, 191, 192, 198, 205, 216, 239),
)
"""The first numbers with different `pmod(hash(number), 64)` in Spark, which therefore spreads them evenly over 1, 2, 4,
8, 16, 32 or 64 partitions. Fixed in every checkpoint."""


def group_of(cluster: str) -> int:
    """Returns the group of a cluster."""
    return _NUMBERS_OF_GROUPS[zlib.crc32(cluster.encode()) % GROUPS]


def pack(rows: Sequence[Observation]) -> pa.RecordBatch:
    """Returns a batch of `PACKED` with one value for each observation."""
    columns = [group_of(row.cluster) for row in rows], [*map(packed, rows)]
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, PACKED_ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=PACKED_ARROW)


def pack_states(states: Mapping[str, bytes]) -> bytes:
    """Returns the states of a group's clusters as one value."""
    parts: list[bytes] = []
    for cluster, state in states.items():
        name = cluster.encode()
        parts += (_STATE_HEADER.pack(len(name), len(state)), name, state)
    return b"".join(parts)


def unpack_states(value: bytes) -> dict[str, bytes]:
    """Returns the state of each cluster in a value of `pack_states`.

    Raises:
        ValueError: the value is damaged, although Spark has checked the sums of its files.
    """
    states: dict[str, bytes] = {}
    at = 0
    while at + _STATE_HEADER.size <= len(value):
        name_length, length = _STATE_HEADER.unpack_from(value, at)
        name = at + _STATE_HEADER.size
        state = name + name_length
        at = state + length
        if at > len(value):
            break
        states[value[name:state].decode()] = value[state:at]
    if at != len(value):
        raise ValueError("the states of a group of clusters are damaged")
    return states
