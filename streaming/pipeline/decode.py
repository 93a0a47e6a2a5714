"""The decode stage: observation rows to event rows, stateless, before the shuffle.

What cannot be decoded becomes an `undecodable` event with its offset and reason; the stream continues. So does a whole
row whose decoding raises, or whose values do not fit the columns of `schema.EVENT`: an exception here would end the
query for all clusters, and again after each restart.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from connectors.decode_observation import decode_observation
from connectors.event_columns import EventColumns
from connectors.log_event import Undecodable
from connectors.observation import Observation, ObservationKind
from streaming.pipeline.event_arrow import event_arrays
from streaming.pipeline.python_worker import freeze_imports
from streaming.pipeline.schema import EVENT
from streaming.replay.failure_reason import failure_reason

SHARD_OF_QUORUM = 0
"""Shard 0 holds the quorum. All partitions are in it as well: there is one shard."""

EVENT_ARROW = to_arrow_schema(EVENT)
_EVENT_TYPES = {field.name: field.type for field in EVENT_ARROW}


def decode_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`mapInArrow`: batches of `schema.OBSERVATION` to batches of `schema.EVENT`, one for one."""
    freeze_imports()
    for batch in batches:
        tables = [_contained(row) for row in batch.to_pylist()]
        if tables:
            yield pa.concat_batches(tables)


def _contained(row: Mapping[str, Any]) -> pa.RecordBatch:
    """Returns the events of one observation row; one Undecodable if its decoding raises."""
    try:
        return event_table(row, decode_observation(_observation(row)))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - one cluster's row must not end the query for all clusters
        reason = f"the row cannot be decoded: {failure_reason(error)}"
        event = Undecodable(offset=None, reason=reason, length=len(row["payload"]))
        return event_table(row, EventColumns([event]))


def _observation(row: Mapping[str, Any]) -> Observation:
    return Observation(**{**row, "kind": ObservationKind(str(row["kind"]))})


def event_table(row: Mapping[str, Any], events: EventColumns) -> pa.RecordBatch:
    """Returns events as a batch of `schema.EVENT`, with cluster, sequence and time of their row."""
    count = len(events)
    keys: dict[str, object] = {
        "cluster": row["cluster"],
        "shard": SHARD_OF_QUORUM,
        "sequence": row["sequence"],
        "observed_at_ms": row["observed_at_ms"],
    }
    columns = event_arrays(events, _EVENT_TYPES) | {
        name: pa.repeat(pa.scalar(value, type=_EVENT_TYPES[name]), count) for name, value in keys.items()
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in EVENT_ARROW.names], schema=EVENT_ARROW)
