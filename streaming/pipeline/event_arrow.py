"""Converts the events of one observation to Arrow arrays and back: a block directly, without an object an event."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from connectors.event_block import NO_LEADER, UNCHANGED, UUID_TEXT, EventBlock, NodeLists, PartitionColumns
from connectors.event_columns import (
    COLUMNS,
    PARTITION_CHANGED,
    PARTITION_SET,
    EventColumns,
    EventRow,
    events_from_columns,
)
from streaming.replay.observed_events import ObservedEvent

FEWEST_EVENTS: Final = 128
"""Fewer events become objects: numpy's fixed cost is higher."""
_IN_BLOCKS: Final = (
    PARTITION_SET,
    PARTITION_CHANGED,
    "topic-created",
    "topic-removed",
    "elr-cleared",
    "feature-level-set",
    "controller-registered",
    "broker-registered",
    "broker-changed",
    "broker-unregistered",
    "transaction-began",
    "transaction-ended",
    "undecodable",
)
"""The events that a decoder puts into a block; control records and ends of observations are by themselves."""


def event_arrays(events: EventColumns, types: Mapping[str, pa.DataType]) -> dict[str, pa.Array]:
    """Returns every column of `EventColumns.columns` by name, as an Arrow array.

    Args:
        events: the events of one observation.
        types: the type of each column.

    Raises:
        pyarrow.ArrowException: a value does not fit its column.
    """
    fields = {name: types[name] for name in EventRow._fields}
    tables = [_rows(part, fields) if isinstance(part, list) else _block(part, fields) for part in events.parts()] or [
        _rows([], fields)
    ]
    columns = [pa.concat_arrays(column) for column in zip(*tables, strict=True)]
    ordinals = pa.array(np.arange(len(events)), type=types["ordinal"])
    return dict(zip(COLUMNS, (ordinals, *columns), strict=True))


def _rows(rows: Sequence[tuple[Any, ...]], fields: Mapping[str, pa.DataType]) -> list[pa.Array]:
    columns: Sequence[Sequence[Any]] = [*zip(*rows, strict=True)] if rows else [()] * len(fields)
    return [pa.array(column, type=type_) for column, type_ in zip(columns, fields.values(), strict=True)]


def _block(block: EventBlock, fields: Mapping[str, pa.DataType]) -> list[pa.Array]:
    partitions = _partitions(block, fields)
    if not block.others:
        return partitions
    order = np.empty(len(block), np.int64)
    order[block.partition_at] = np.arange(len(block.partitions))
    order[block.other_at] = np.arange(len(block.partitions), len(block))
    indices = pa.array(order)
    others = _rows(block.others, fields)
    return [pa.concat_arrays(pair).take(indices) for pair in zip(partitions, others, strict=True)]


def _partitions(block: EventBlock, fields: Mapping[str, pa.DataType]) -> list[pa.Array]:
    """Returns the columns of the partition events."""
    of = block.partitions
    count = len(of)
    names = pa.array([PARTITION_SET, PARTITION_CHANGED])
    offsets = np.arange(0, UUID_TEXT * count + 1, UUID_TEXT, dtype=np.int32)
    columns = {
        "type": pa.DictionaryArray.from_arrays(of.changed.astype(np.int8), names),
        "offset": pa.array(of.offset),
        "leader_epoch": pa.array(of.leader_epoch),
        "timestamp_ms": pa.array(of.timestamp_ms),
        "snapshot": pa.array(np.full(count, block.snapshot)),
        "topic_id": pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(of.topic_id.tobytes())),
        "partition": pa.array(of.partition),
        "replicas": _lists(of.replicas),
        "isr": _lists(of.isr),
        "elr": _lists(of.elr),
        "last_known_elr": _lists(of.last_known_elr),
        "leader": pa.array(of.leader, mask=of.leader < 0),
        "leader_set": pa.array(of.leader_set),
        "partition_leader_epoch": pa.array(of.partition_leader_epoch, mask=of.changed),
        "partition_epoch": pa.array(of.partition_epoch, mask=of.changed),
        "recovering": pa.array(of.recovering == 1, mask=of.recovering == UNCHANGED),
        "body": pa.nulls(count),
    }
    return [columns[name].cast(type_) for name, type_ in fields.items()]


def _lists(lists: NodeLists) -> pa.Array:
    lengths: npt.NDArray[np.int32] = np.maximum(lists.lengths, 0)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    absent = lists.lengths < 0
    mask = pa.array(absent) if absent.any() else None
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(lists.nodes), mask=mask)


def observed_events(events: pa.RecordBatch) -> Iterator[ObservedEvent]:
    """Yields the events that `event_arrays` converted; many partition events together, as a block.

    Args:
        events: of one observation, with the columns of `EventColumns.columns`.

    Raises:
        ValueError: a value is not that of an event.
    """
    alone = np.flatnonzero(~_is_one_of(events, _IN_BLOCKS))
    edges = sorted({0, *alone.tolist(), *(alone + 1).tolist(), events.num_rows})
    for start, end in pairwise(edges):
        part = events.slice(start, end - start)
        at = np.flatnonzero(_is_one_of(part, (PARTITION_SET, PARTITION_CHANGED)))
        partitions = part.take(pa.array(at))
        if len(at) < FEWEST_EVENTS or not _fits_block(partitions):
            yield from events_from_columns(part.to_pydict())
            continue
        other_at = np.setdiff1d(np.arange(end - start), at)
        others = part.take(pa.array(other_at)).to_pydict()
        yield EventBlock(
            snapshot=bool(partitions.column("snapshot")[0].as_py()),
            partitions=_partition_columns(partitions),
            partition_at=at,
            others=[*zip(*(others[name] for name in EventRow._fields), strict=True)],
            other_at=other_at,
        )


def _is_one_of(events: pa.RecordBatch, types: Sequence[str]) -> npt.NDArray[np.bool_]:
    found = compute.is_in(events.column("type"), value_set=pa.array(types))
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


def _fits_block(partitions: pa.RecordBatch) -> bool:
    lengths = compute.min_max(compute.binary_length(partitions.column("topic_id"))).as_py()
    snapshot = compute.count_distinct(partitions.column("snapshot")).as_py()
    return bool(lengths == {"min": UUID_TEXT, "max": UUID_TEXT} and snapshot == 1)


def _partition_columns(of: pa.RecordBatch) -> PartitionColumns:
    def numbers(name: str, dtype: Any, absent: int | None = None) -> Any:
        column = of.column(name)
        filled = column if absent is None else column.fill_null(absent)
        return filled.to_numpy(zero_copy_only=False).astype(dtype)

    text = pa.concat_arrays([of.column("topic_id")])
    first = np.frombuffer(text.buffers()[1], np.int32, text.offset + 1)[text.offset]
    recovering = of.column("recovering").cast(pa.int8()).fill_null(UNCHANGED)
    return PartitionColumns(
        changed=_is_one_of(of, (PARTITION_CHANGED,)),
        offset=numbers("offset", np.int64),
        leader_epoch=numbers("leader_epoch", np.int32),
        timestamp_ms=numbers("timestamp_ms", np.int64),
        topic_id=np.frombuffer(text.buffers()[2], np.uint8, UUID_TEXT * len(text), int(first)).reshape(-1, UUID_TEXT),
        partition=numbers("partition", np.int32),
        replicas=_node_lists(of.column("replicas")),
        isr=_node_lists(of.column("isr")),
        elr=_node_lists(of.column("elr")),
        last_known_elr=_node_lists(of.column("last_known_elr")),
        leader=numbers("leader", np.int32, NO_LEADER),
        leader_set=numbers("leader_set", np.bool_),
        partition_leader_epoch=numbers("partition_leader_epoch", np.int32, -1),
        partition_epoch=numbers("partition_epoch", np.int32, -1),
        recovering=recovering.to_numpy(zero_copy_only=False),
    )


def _node_lists(column: pa.ListArray) -> NodeLists:
    lengths = compute.list_value_length(column).fill_null(UNCHANGED)
    return NodeLists(
        lengths=lengths.to_numpy(zero_copy_only=False).astype(np.int32),
        nodes=column.flatten().to_numpy(zero_copy_only=False).astype(np.int32),
    )
