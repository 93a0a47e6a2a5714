"""Packed observations: one observation as one binary value, the form in which it crosses Spark.

Spark converts each column of each group to pandas on its own, which takes 60 us of CPU time however few rows there are:
with the columns of `schema.OBSERVATION` longer than everything else that is done for a quiet cluster. The values are
never stored.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from connectors.observations.observation import Observation, ObservationKind
from streaming.pipeline.schema import PACKED

SHARD_OF_QUORUM: Final = 0
"""Shard 0 holds the quorum. All partitions are in it as well: there is one shard."""
PACKED_ARROW: Final = to_arrow_schema(PACKED)
_KINDS: Final = tuple(ObservationKind)
_NUMBERS: Final = ("base_offset", "last_offset", "leader_epoch", "high_watermark")
_HEADER: Final = Struct(">qqBB4q")
"""Sequence, time, kind, which of the numbers are present as bits, the numbers. The payload follows."""


def pack(rows: Sequence[Observation]) -> pa.RecordBatch:
    """Returns a batch of `schema.PACKED` with one value for each observation."""
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
