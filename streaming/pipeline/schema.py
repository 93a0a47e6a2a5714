"""The schemas of Spark's rows: observation, the step's output, the state; and how an observation is packed.

The observation row is `connectors.observations.observation.Observation`: a test holds them equal. State is one binary
column, a versioned blob: array and map columns in state crash Spark 4.2, and a restart refuses a column whose type has
changed.

An observation crosses Spark as one binary value: Spark converts each column of each group to pandas on its own, which
takes 60 us of CPU time however few rows there are, with the columns of `OBSERVATION` longer than everything else that
is done for a quiet cluster. The values are never stored.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from connectors.observations.observation import Observation, ObservationKind

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
"""An observation on its way to the step, as `pack` makes it."""

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

SHARD_OF_QUORUM: Final = 0
"""Shard 0 holds the quorum. All partitions are in it as well: there is one shard."""
PACKED_ARROW: Final = to_arrow_schema(PACKED)
_KINDS: Final = tuple(ObservationKind)
_NUMBERS: Final = ("base_offset", "last_offset", "leader_epoch", "high_watermark")
_HEADER: Final = Struct(">qqBB4q")
"""Sequence, time, kind, which of the numbers are present as bits, the numbers. The payload follows."""


def pack(rows: Sequence[Observation]) -> pa.RecordBatch:
    """Returns a batch of `PACKED` with one value for each observation."""
    columns = [row.cluster for row in rows], [SHARD_OF_QUORUM] * len(rows), [*map(_packed, rows)]
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, PACKED_ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=PACKED_ARROW)


def _packed(row: Observation) -> bytes:
    numbers = row.base_offset, row.last_offset, row.leader_epoch, row.high_watermark
    present = sum(1 << at for at, number in enumerate(numbers) if number is not None)
    header = row.sequence, row.observed_at_ms, _KINDS.index(row.kind), present
    return _HEADER.pack(*header, *(number or 0 for number in numbers)) + row.payload


def unpacked(cluster: str, value: bytes) -> Observation:
    """Returns the observation of a value."""
    sequence, observed_at_ms, kind, present, *numbers = _HEADER.unpack_from(value)
    return Observation(
        cluster=cluster,
        kind=_KINDS[kind],
        observed_at_ms=observed_at_ms,
        payload=value[_HEADER.size :],
        sequence=sequence,
        **{name: number for at, (name, number) in enumerate(zip(_NUMBERS, numbers, strict=True)) if present >> at & 1},
    )
