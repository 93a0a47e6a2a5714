"""The decode stage: observation rows to event rows, stateless, before the shuffle.

What cannot be decoded becomes an `undecodable` event with its offset and reason; the stream continues. So does a whole
row whose decoding raises, or whose values do not fit the columns of `schema.EVENT`: an exception here would end the
query for all clusters, and again after each restart.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple, TypeGuard

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from connectors.decode_observation import decode_observation
from connectors.event_block import EventBlock
from connectors.event_columns import EventColumns
from connectors.observation import Observation, ObservationKind
from streaming.pipeline.event_arrow import event_arrays
from streaming.pipeline.python_worker import begin_task
from streaming.pipeline.schema import EVENT
from streaming.replay.failure_reason import undecodable_row

SHARD_OF_QUORUM = 0
"""Shard 0 holds the quorum. All partitions are in it as well: there is one shard."""

EVENT_ARROW = to_arrow_schema(EVENT)
_EVENT_TYPES = {field.name: field.type for field in EVENT_ARROW}


def decode_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`mapInArrow`: batches of `schema.OBSERVATION` to batches of `schema.EVENT`, one for one."""
    begin_task()
    for batch in batches:
        decoded = [_decoded(row) for row in batch.to_pylist()]
        tables = [
            table
            for plain, run in groupby(decoded, key=lambda one: one.is_plain)
            for table in (_plain_tables([*run]) if plain else map(_contained_table, run))
        ]
        if tables:
            yield pa.concat_batches(tables)


class _Decoded(NamedTuple):
    """An observation row and its events."""

    row: Mapping[str, Any]
    events: EventColumns

    @property
    def is_plain(self) -> bool:
        """Whether the events are rows only. Blocks of many events are copied as little as possible."""
        return all(map(_is_rows, self.events.parts()))


def _is_rows(part: list[tuple[Any, ...]] | EventBlock) -> TypeGuard[list[tuple[Any, ...]]]:
    return isinstance(part, list)


def _decoded(row: Mapping[str, Any]) -> _Decoded:
    """Returns the events of one observation row; one Undecodable if its decoding raises."""
    try:
        return _Decoded(row, decode_observation(_observation(row)))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - one cluster's row must not end the query for all clusters
        return _undecodable(row, error)


def _undecodable(row: Mapping[str, Any], error: Exception) -> _Decoded:
    return _Decoded(row, EventColumns([undecodable_row(row["payload"], error)]))


def _plain_tables(run: Sequence[_Decoded]) -> Iterable[pa.RecordBatch]:
    """Returns the events of several observations as one table; one table each if a value does not fit its column.

    Most observations are one event: a table for each of them takes ten times as long as decoding it.
    """
    rows = [
        (one.row["cluster"], SHARD_OF_QUORUM, one.row["sequence"], one.row["observed_at_ms"], ordinal, *event)
        for one in run
        for ordinal, event in enumerate(chain.from_iterable(filter(_is_rows, one.events.parts())))
    ]
    columns = zip(*rows, strict=True) if rows else [()] * len(EVENT_ARROW)
    try:
        arrays = [pa.array(column, type=field.type) for column, field in zip(columns, EVENT_ARROW, strict=True)]
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return map(_contained_table, run)
    return [pa.RecordBatch.from_arrays(arrays, schema=EVENT_ARROW)]


def _contained_table(one: _Decoded) -> pa.RecordBatch:
    """Returns the events of one observation; one Undecodable if they do not fit the columns."""
    try:
        return event_table(one.row, one.events)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - one cluster's row must not end the query for all clusters
        return event_table(*_undecodable(one.row, error))


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
