"""RecordTable: the metadata records of several batches as numpy arrays, and which have the shape that Kafka writes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from connectors.event_block import Flags, Octets, Positions
from connectors.metadata.batches import FRAME, HEADER, RecordBatch
from connectors.metadata.byte_views import ByteViews, Words
from connectors.metadata.record_framing import FRAME_VERSION
from connectors.metadata.record_starts import find_record_starts

_SHORTEST_RECORD: Final = 7
"""Bytes of a record without key and value."""
_KEY_IS_NULL: Final = 1
_LARGEST_DELTA: Final = 0xFFFFF
"""The largest offset delta whose varint has three bytes."""
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
    start, framed, unusual = _record_starts(chunk, batches, views)
    ends, counts = (column[framed] for column in _ends_and_counts(batches))
    batch_of = np.repeat(framed, counts)
    first = np.cumsum(counts) - counts
    delta = np.arange(len(start), dtype=np.int64) - np.repeat(first, counts)
    end = np.empty_like(start)
    end[:-1] = start[1:]
    end[first + counts - 1] = ends - origin
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


def _ends_and_counts(batches: Sequence[RecordBatch]) -> tuple[Positions, Positions]:
    pairs = np.array([(batch.position + batch.length, batch.record_count) for batch in batches], np.int64)
    return pairs[:, 0] + FRAME, pairs[:, 1]


def _record_starts(
    chunk: bytes, batches: Sequence[RecordBatch], views: ByteViews
) -> tuple[Positions, Positions, list[tuple[int, int]]]:
    """Returns where each record begins, the batches that they are of, and RecordTable's `unusual_batches`."""
    origin = batches[0].position
    positions = np.array([batch.position for batch in batches], np.int64)
    ends, counts = _ends_and_counts(batches)
    start, found = find_record_starts(views.bytes, positions + HEADER.size - origin, ends - origin, counts)
    if found.all():
        return start, np.arange(len(batches)), []
    parts: list[Positions] = []
    unusual: list[tuple[int, int]] = []
    before = at = 0
    for index, is_found in enumerate(found.tolist()):
        count = batches[index].record_count
        if is_found:
            parts.append(start[at : at + count])
            at += count
        else:
            starts: list[int] = []
            if not _append_starts(chunk, batches[index], starts):
                unusual.append((before, index))
                continue
            parts.append(np.array(starts, np.int64) - origin)
        before += count
    framed = np.setdiff1d(np.arange(len(batches)), np.array([index for _, index in unusual], np.int64))
    return np.concatenate([np.zeros(0, np.int64), *parts]), framed, unusual


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
            if not 0 < third < 0x80:
                return False  # longer, or of more bytes than needed: `_frame_fields` would misread it
            position += 3 + ((length & 0x7F) >> 1 | (second & 0x7F) << 6 | third << 13)
    except IndexError:
        return False
    return position == end


def _frame_fields(views: ByteViews, start: Positions, end: Positions, delta: Positions) -> dict[str, Any]:
    """Returns what `record_framing` reads of each record: no attributes, the batch's timestamp, no key, no headers.

    Its length has one or two bytes. Eight bytes are gathered at once, as a little-endian number: the first is its
    lowest byte.
    """
    eight = views.eight[start]
    width = 1 + (eight >> 7 & 1)
    expected, expected_size = _attributes_and_deltas(delta)
    usual = (eight >> 8 * width & _lowest_bytes(expected_size)) == expected
    key = start + (width + expected_size).view(np.int64)
    eight = views.eight[key]
    long = eight >> 15 & 1
    usual &= (eight & 0xFF == _KEY_IS_NULL) & (delta <= _LARGEST_DELTA)
    # A size of three bytes or more is larger than such a record: its end is not that of the record.
    length = eight >> 8 & 0x7F | (eight >> 16 & 0xFF) * long << 7
    value = key + 2 + long.view(np.int64)
    eight >>= 16 + 8 * long
    stop = end - 1
    usual &= (length >= 2 * _TYPE_AND_VERSION) & (length & 1 == 0) & (value + (length >> 1).view(np.int64) == stop)
    # The three bytes of frame version, type and version, each a varint of one byte.
    usual &= (views.bytes[stop] == 0) & (eight & 0x8080FF == FRAME_VERSION)
    type_, version = (eight >> 8).astype(np.uint8), (eight >> 16).astype(np.uint8)
    return {"usual": usual, "type": type_, "version": version, "body": value + _TYPE_AND_VERSION, "end": stop}


def _attributes_and_deltas(delta: Positions) -> tuple[Words, Words]:
    """Returns attributes, timestamp delta and offset delta of each record as Kafka writes them, and their size.

    Both are as `_frame_fields` reads bytes: two zeros, and a zigzag varint of up to three bytes.
    """
    zigzag: Words = (delta << 1).view(np.uint64)
    two, three = (delta > 0x3F).astype(np.uint64), (delta > 0x1FFF).astype(np.uint64)
    varint = zigzag & 0x7F | two << 7 | (zigzag >> 7 & 0x7F) << 8 | three << 15 | (zigzag >> 14 & 0x7F) << 16
    return np.asarray(varint << 16, np.uint64), np.asarray(3 + two + three, np.uint64)


def _lowest_bytes(count: Words) -> Words:
    """Returns a mask of the lowest bytes of each word."""
    mask: Words = (np.uint64(1) << 8 * count) - 1
    return mask
