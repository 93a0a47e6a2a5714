"""RecordTable: the metadata records of several batches as numpy arrays, and which have the shape that Kafka writes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from connectors.event_block import Flags, Octets, Positions
from connectors.metadata.batches import RecordBatch
from connectors.metadata.byte_views import ByteViews
from connectors.metadata.record_framing import FRAME_VERSION

_SHORTEST_RECORD: Final = 7
"""Bytes of a record without key and value."""
_KEY_IS_NULL: Final = 1
_TYPE_AND_VERSION: Final = 3
"""Bytes of frame version, type and version, each a varint of one byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTable:
    """The records of consecutive batches; positions count from `origin`, and each array has one element a record."""

    views: ByteViews
    origin: int
    """Position of the first batch in the chunk."""
    batches: Sequence[RecordBatch]
    batch: Positions
    """Index of the record's batch."""
    delta: Positions
    start: Positions
    """Where the record begins, its length included."""
    usual: Flags
    """Whether the record is framed as Kafka frames it. The arrays below hold nothing useful for others."""
    type: Octets
    version: Octets
    body: Positions
    end: Positions
    """The end of the body."""
    unusual_batches: list[tuple[int, int]]
    """Batches whose records do not follow each other to the end of the batch, which are not in the arrays: the number
    of records before the batch, and the index of the batch."""


def record_table(chunk: bytes, batches: Sequence[RecordBatch]) -> RecordTable:
    """Returns the records of batches with a valid CRC that are not control batches, in the order of the chunk."""
    origin = batches[0].position
    views = ByteViews(chunk, origin, batches[-1].end)
    starts: list[int] = []
    counts: list[int] = []
    framed: list[int] = []
    unusual: list[tuple[int, int]] = []
    for index, batch in enumerate(batches):
        before = len(starts)
        if _append_starts(chunk, batch, starts):
            counts.append(batch.record_count)
            framed.append(index)
        else:
            del starts[before:]
            unusual.append((before, index))
    count = np.array(counts, np.int64)
    start = np.array(starts, np.int64) - origin
    batch_of = np.repeat(np.array(framed, np.int64), count)
    first = np.cumsum(count) - count
    delta = np.arange(len(start), dtype=np.int64) - np.repeat(first, count)
    end = np.empty_like(start)
    end[:-1] = start[1:]
    end[first + count - 1] = np.array([batches[index].end - origin for index in framed], np.int64)
    fields = _frame_fields(views, start, end, delta)
    return RecordTable(
        views=views,
        origin=origin,
        batches=batches,
        batch=batch_of,
        delta=delta,
        start=start,
        unusual_batches=unusual,
        **fields,
    )


def _append_starts(chunk: bytes, batch: RecordBatch, starts: list[int]) -> bool:
    """Appends the position of each record; returns whether the records end exactly at the end of the batch."""
    position = batch.body
    end = batch.end
    if batch.record_count * _SHORTEST_RECORD > end - position:
        return False
    append = starts.append
    try:
        for _ in range(batch.record_count):
            append(position)
            length = chunk[position]
            if length & 1:
                return False  # a negative length
            if length < 0x80:
                position += 1 + (length >> 1)
                continue
            second = chunk[position + 1]
            if second < 0x80:
                position += 2 + ((length & 0x7F) >> 1 | second << 6)
                continue
            third = chunk[position + 2]
            if third >= 0x80:
                return False
            position += 3 + ((length & 0x7F) >> 1 | (second & 0x7F) << 6 | third << 13)
    except IndexError:
        return False
    return position == end


def _frame_fields(views: ByteViews, start: Positions, end: Positions, delta: Positions) -> dict[str, Any]:
    """Returns what `record_framing` reads of each record: no attributes, the batch's timestamp, no key, no headers."""
    octets = views.bytes
    _, at = views.uvarints(start)
    usual = (octets[at] == 0) & (octets[at + 1] == 0)
    offset_delta, at = views.uvarints(at + 2)
    usual &= (offset_delta == 2 * delta) & (octets[at] == _KEY_IS_NULL)
    length, value = views.uvarints(at + 1)
    stop = end - 1
    usual &= (length >= 2 * _TYPE_AND_VERSION) & (length & 1 == 0) & (value + (length >> 1) == stop)
    usual &= (octets[stop] == 0) & (octets[value] == FRAME_VERSION)
    type_, version = octets[value + 1], octets[value + 2]
    usual &= (type_ < 0x80) & (version < 0x80)
    return {"usual": usual, "type": type_, "version": version, "body": value + _TYPE_AND_VERSION, "end": stop}
