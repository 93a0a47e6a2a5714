"""The decode stage: observation rows to event rows, stateless, before the shuffle.

What cannot be decoded becomes an `undecodable` event with its offset and reason; the stream goes on.
"""

from collections.abc import Iterator

import pyarrow as pa
from pydantic import ValidationError
from pyspark.sql.pandas.types import to_arrow_schema

from connectors.columns import EventColumns
from connectors.event import Event, Undecodable, from_json
from connectors.metadata.decode import decode
from connectors.observation import Kind, Observation
from rules.quorum import Offset
from streaming.schema import EVENT
from streaming.worker import settle

SHARD_OF_QUORUM = 0
"""Shard 0 holds the quorum; partitions would be spread over further shards. There is one shard now."""

EVENT_ARROW = to_arrow_schema(EVENT)


def events_of(row: Observation) -> EventColumns:
    """One observation's events, in order. Never raises for what the outside world wrote."""
    match row.kind:
        case Kind.RECORDS | Kind.SNAPSHOT:
            return decode(
                row.payload,
                kind=row.kind.value,
                base_offset=row.base_offset,
                last_offset=row.last_offset,
                leader_epoch=row.leader_epoch,
                high_watermark=row.high_watermark,
            )
        case Kind.QUORUM | Kind.PROBE | Kind.UNSEEN:
            columns = EventColumns()
            columns.append(_seen(row))
            return columns


def _seen(row: Observation) -> Event:
    """The event that a poll, probe or failed look was recorded as."""
    try:
        return from_json(row.payload)
    except ValidationError as problem:
        offset = None if row.base_offset is None else Offset(row.base_offset)
        return Undecodable(
            offset=offset,
            reason=f"a {row.kind} row is no event: {problem.error_count()} fields are wrong",
            length=len(row.payload),
        )


def decode_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`mapInArrow`: batches of `schema.OBSERVATION` to batches of `schema.EVENT`, one for one."""
    settle()
    for batch in batches:
        tables = [_table(_observation(row)) for row in batch.to_pylist()]
        if tables:
            yield pa.concat_batches(tables)


def _observation(row: dict[str, object]) -> Observation:
    return Observation(**{**row, "kind": Kind(str(row["kind"]))})  # type: ignore[arg-type]  # Arrow names the fields


def _table(row: Observation) -> pa.RecordBatch:
    columns = events_of(row).columns()
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
