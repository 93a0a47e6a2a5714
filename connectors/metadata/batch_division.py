"""Divides record batches into pieces that each take little time to decode, apply and evaluate.

Kafka accepts batches of 8 MiB. One with small records takes many seconds, in which nothing else is evaluated: a row is
applied as a whole. So a large batch becomes several, as if the leader had written them one after the other: offsets,
leader epoch, timestamps and records stay the same.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from connectors.errors import UndecodableError
from connectors.metadata.batches import FRAME, HEADER, RecordBatch, scan, write_crc
from connectors.metadata.record_framing import varint
from connectors.metadata.record_layouts import zigzag

PIECE_BYTES: Final = 256 * 1024
"""Most bytes of a piece, unless one record is larger or a batch is damaged."""
PIECE_RECORDS: Final = 2_048
"""Most records of a piece. A piece of them takes at most 0.2 s (`make hostile`)."""


class Piece(NamedTuple):
    """Whole batches."""

    content: bytes
    last_offset: int | None
    """Of the last batch; None if it is damaged."""


def divided(batches: bytes) -> tuple[Piece, ...]:
    """Returns the pieces of consecutive batches, none if there are no bytes. A damaged batch stays as it is."""
    pieces: list[Piece] = []
    size = records = 0
    last_offset: int | None = None
    parts: list[bytes] = []
    for content, count, last in _small_batches(batches):
        if parts and (size + len(content) > PIECE_BYTES or records + count > PIECE_RECORDS) and last_offset is not None:
            pieces.append(Piece(b"".join(parts), last_offset))
            size = records = 0
            parts = []
        parts.append(content)
        size, records, last_offset = size + len(content), records + count, last
    if parts:
        pieces.append(Piece(b"".join(parts), last_offset))
    return tuple(pieces)


def _small_batches(batches: bytes) -> Iterator[tuple[bytes, int, int | None]]:
    """Yields batches that are no larger than a piece, the number of their records and their last offset."""
    for item in scan(batches):
        if not isinstance(item, RecordBatch):
            yield batches[item.position : item.position + item.size], 1, None
        elif item.size <= PIECE_BYTES and item.record_count <= PIECE_RECORDS:
            yield batches[item.position : item.end], item.record_count, item.last_offset
        else:
            yield from _parts(batches, item)


def _parts(chunk: bytes, batch: RecordBatch) -> Iterator[tuple[bytes, int, int | None]]:
    """Yields the batches that a batch is divided into. Bytes that are no record are in the last one."""
    first = delta = 0
    position, body = batch.body, bytearray()
    while delta < batch.record_count and (span := _record(chunk, position, batch)) is not None:
        content, end = span
        if body and (len(body) + end - position > PIECE_BYTES or delta - first >= PIECE_RECORDS):
            yield _part(batch, first, delta - first, body)
            first, body = delta, bytearray()
        body += _moved(chunk, content, end, first) if first else chunk[position:end]
        position, delta = end, delta + 1
    yield _part(batch, first, batch.record_count - first, body + chunk[position : batch.end])


def _record(chunk: bytes, position: int, batch: RecordBatch) -> tuple[int, int] | None:
    """Returns where a record begins, after its length, and ends; None if it does not end within its batch."""
    try:
        length, content = varint(chunk, position)
    except (IndexError, UndecodableError):
        return None
    return (content, content + length) if length >= 0 and content + length <= batch.end else None


def _moved(chunk: bytes, start: int, end: int, by: int) -> bytes:
    """Returns a record, with its length, whose offset delta is smaller; one without such a number stays as it is."""
    try:
        _, at = varint(chunk, start + 1)
        delta, after = varint(chunk, at)
    except (IndexError, UndecodableError):
        delta, at, after = 0, end, end
    if after >= end:
        return zigzag(end - start) + chunk[start:end]
    moved = chunk[start:at] + zigzag(delta - by) + chunk[after:end]
    return zigzag(len(moved)) + moved


def _part(batch: RecordBatch, first: int, count: int, body: bytearray) -> tuple[bytes, int, int | None]:
    """Returns a batch with some of the records of another one, as `_small_batches` yields it."""
    header = batch._replace(
        base_offset=batch.base_offset + first,
        length=HEADER.size - FRAME + len(body),
        last_offset_delta=count - 1,
        record_count=count,
    )
    content = bytearray(HEADER.pack(*header[1:]) + body)
    write_crc(content)
    return bytes(content), count, header.last_offset
