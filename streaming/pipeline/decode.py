"""The decode stage: observation rows to event rows, stateless, before the shuffle.

What cannot be decoded becomes an `undecodable` event with its offset and reason; the stream continues.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from connectors.decode_observation import decode_observation
from connectors.observation import Observation, ObservationKind
from streaming.pipeline.python_worker import freeze_imports
from streaming.pipeline.schema import EVENT

SHARD_OF_QUORUM = 0
"""Shard 0 holds the quorum. All partitions are in it as well: there is one shard."""

EVENT_ARROW = to_arrow_schema(EVENT)


def decode_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`mapInArrow`: batches of `schema.OBSERVATION` to batches of `schema.EVENT`, one for one."""
    freeze_imports()
    for batch in batches:
        tables = [_table(_observation(row)) for row in batch.to_pylist()]
        if tables:
            yield pa.concat_batches(tables)


def _observation(row: dict[str, object]) -> Observation:
    return Observation(**{**row, "kind": ObservationKind(str(row["kind"]))})  # type: ignore[arg-type]  # Arrow names the fields


def _table(row: Observation) -> pa.RecordBatch:
    columns = decode_observation(row).columns()
    count = len(columns["ordinal"])
    keys: dict[str, object] = {
        "cluster": row.cluster,
        "shard": SHARD_OF_QUORUM,
        "sequence": row.sequence,
        "observed_at_ms": row.observed_at_ms,
    }
    arrays = [
        pa.array([keys[field.name]] * count if field.name in keys else columns[field.name], type=field.type)
        for field in EVENT_ARROW
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENT_ARROW)
