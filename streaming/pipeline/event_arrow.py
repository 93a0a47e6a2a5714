"""Converts the events of one observation to Arrow arrays: a block's columns directly, without Python objects."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors.event_block import UNCHANGED, UUID_TEXT, EventBlock, NodeLists
from connectors.event_columns import COLUMNS, PARTITION_CHANGED, PARTITION_SET, EventColumns, EventRow


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
