"""Converts the events of one observation to Arrow arrays and back: a block directly, without an object an event."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from connectors.event_block import (
    NO_LEADER,
    TOPIC_BODY,
    TOPIC_CREATED,
    UNCHANGED,
    UUID_TEXT,
    EventBlock,
    Flags,
    NodeLists,
    PartitionColumns,
    Positions,
)
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
_FEW_OTHERS: Final = 24
"""So many values are inserted into a column by slices, which is faster than taking each value by its index."""
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
    # Concatenating one array would copy it.
    columns = tables[0] if len(tables) == 1 else [pa.concat_arrays(column) for column in zip(*tables, strict=True)]
    ordinals = pa.array(np.arange(len(events)), type=types["ordinal"])
    return dict(zip(COLUMNS, (ordinals, *columns), strict=True))


def _rows(rows: Sequence[tuple[Any, ...]], fields: Mapping[str, pa.DataType]) -> list[pa.Array]:
    columns: Sequence[Sequence[Any]] = [*zip(*rows, strict=True)] if rows else [()] * len(fields)
    return [pa.array(column, type=type_) for column, type_ in zip(columns, fields.values(), strict=True)]


def _block(block: EventBlock, fields: Mapping[str, pa.DataType]) -> list[pa.Array]:
    is_other = np.zeros(len(block), np.bool_)
    is_other[block.other_at] = True
    place = np.cumsum(~is_other) - 1
    by_column = _by_column(block, place[block.partition_at], place[block.topic_at])
    columns = [by_column[name].cast(type_) for name, type_ in fields.items()]
    if not block.others:
        return columns
    others = _rows(block.others, fields)
    if len(block.others) <= _FEW_OTHERS:
        before = (block.other_at - np.arange(len(block.others))).tolist()
        return [_inserted(column, other, before) for column, other in zip(columns, others, strict=True)]
    place[block.other_at] = np.arange(len(block) - len(block.others), len(block))
    indices = pa.array(place)
    return [pa.concat_arrays(pair).take(indices) for pair in zip(columns, others, strict=True)]


def _inserted(column: pa.Array, others: pa.Array, before: list[int]) -> pa.Array:
    """Returns the column with each of the other values after as many of its own as `before` says."""
    parts = [column.slice(0, 0)]
    start = 0
    for index, end in enumerate(before):
        if end > start:
            parts.append(column.slice(start, end - start))
            start = end
        parts.append(others.slice(index, 1))
    return pa.concat_arrays([*parts, column.slice(start)])


def _by_column(block: EventBlock, at: Positions, topic_at: Positions) -> dict[str, pa.Array]:
    """Returns the columns of the partition events, and of the topics between them, at these indices."""
    of, topics = block.partitions, block.topics
    count = len(of) + len(topics)
    is_topic = np.zeros(count, np.bool_)
    is_topic[topic_at] = True

    def spread(values: Any, of_topics: Any = 0) -> Any:
        if not len(topics):
            return values
        spread_values = np.empty((count, *values.shape[1:]), values.dtype)
        spread_values[at] = values
        spread_values[topic_at] = of_topics
        return spread_values

    def lists(nodes: NodeLists) -> pa.Array:
        return _lists(NodeLists(lengths=spread(nodes.lengths, UNCHANGED), nodes=nodes.nodes))

    names = pa.array([PARTITION_SET, PARTITION_CHANGED, TOPIC_CREATED])
    ids = np.arange(0, UUID_TEXT * count + 1, UUID_TEXT, dtype=np.int32)
    leader, recovering = spread(of.leader, NO_LEADER), spread(of.recovering, UNCHANGED)
    without_epochs = spread(of.changed, of_topics=True)
    id_texts = pa.py_buffer(spread(of.topic_id, topics.topic_id).tobytes())
    return {
        "type": pa.DictionaryArray.from_arrays(spread(of.changed.astype(np.int8), 2), names),
        "offset": pa.array(spread(of.offset, topics.offset)),
        "leader_epoch": pa.array(spread(of.leader_epoch, topics.leader_epoch)),
        "timestamp_ms": pa.array(spread(of.timestamp_ms, topics.timestamp_ms)),
        "snapshot": pa.array(np.full(count, block.snapshot)),
        "topic_id": pa.StringArray.from_buffers(count, pa.py_buffer(ids), id_texts, _validity(~is_topic)),
        "partition": pa.array(spread(of.partition), mask=is_topic),
        "replicas": lists(of.replicas),
        "isr": lists(of.isr),
        "elr": lists(of.elr),
        "last_known_elr": lists(of.last_known_elr),
        "leader": pa.array(leader, mask=leader < 0),
        "leader_set": pa.array(spread(of.leader_set), mask=is_topic),
        "partition_leader_epoch": pa.array(spread(of.partition_leader_epoch), mask=without_epochs),
        "partition_epoch": pa.array(spread(of.partition_epoch), mask=without_epochs),
        "recovering": pa.array(recovering == 1, mask=recovering == UNCHANGED),
        "body": _topic_bodies(block, is_topic) if len(topics) else pa.nulls(count),
    }


def _topic_bodies(block: EventBlock, is_topic: Flags) -> pa.Array:
    """Returns the `body` of each topic where `is_topic`, else null."""
    topics, count = block.topics, len(block.topics)
    ids = np.arange(0, UUID_TEXT * count + 1, UUID_TEXT, dtype=np.int32)
    name_offsets = np.concatenate(([0], topics.name_end)).astype(np.int32)
    columns = (
        pa.array(topics.offset).cast(pa.string()),
        pa.array(topics.leader_epoch).cast(pa.string()),
        pa.array(topics.timestamp_ms).cast(pa.string()),
        pa.scalar("true" if block.snapshot else "false"),
        pa.StringArray.from_buffers(count, pa.py_buffer(ids), pa.py_buffer(topics.topic_id.tobytes())),
        pa.StringArray.from_buffers(count, pa.py_buffer(name_offsets), pa.py_buffer(topics.names)),
    )
    texts = [pa.scalar(text) for text in TOPIC_BODY.decode().replace("%d", "%b").split("%b")]
    pieces = [piece for pair in zip(texts, columns, strict=False) for piece in pair]
    bodies = compute.binary_join_element_wise(*pieces, texts[-1], "")
    lengths = np.zeros(len(is_topic), np.int32)
    lengths[is_topic] = compute.binary_length(bodies).to_numpy()
    offsets = np.zeros(len(is_topic) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [_validity(is_topic), pa.py_buffer(offsets), bodies.buffers()[2]]
    return pa.Array.from_buffers(pa.binary(), len(is_topic), buffers)


def _validity(present: Flags) -> pa.Buffer:
    return pa.py_buffer(np.packbits(present, bitorder="little").tobytes())


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
