"""Finds the records of a batch: the positions of each key and value, and the type and version of a value.

A metadata record's value is a frame version (1), the api key and the version as unsigned varints, then the
body (`MetadataRecordSerde`); it has no key and no headers. A control record's key is two int16: version, type.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from connectors.errors import UndecodableError
from connectors.metadata.batches import HEADER, RecordBatch
from connectors.metadata.field_readers import uvarint
from connectors.metadata.value_limits import LATEST_TIMESTAMP_MS, NO_TIMESTAMP

FRAME_VERSION: Final = 1
NOOP_SIZE: Final = 72
"""Size of a batch that holds one NoOpRecord, as nearly all batches of an idle log do."""
NOOP: Final = bytes((20, 0, 0, 0, 1, 8, FRAME_VERSION, 20, 0, 0, 0))
"""The bytes after the header of such a batch: length, attributes, timestamp delta, offset delta, no key, value."""
_LONGEST_VARINT: Final = 10
_LONGEST_VALUE_HEADER: Final = 15
_CONTROL_KEY: Final = 4


class FramedRecord(NamedTuple):
    """One record of a batch, by positions in the chunk."""

    start: int
    """Where it begins, its length field included."""
    end: int
    """Where the next begins."""
    delta: int
    """Offset minus the batch's base offset."""
    timestamp_delta: int
    key: tuple[int, int] | None
    value: tuple[int, int] | None
    content_start: int
    """Where the bytes after length, attributes and deltas begin."""
    fault: str | None = None
    """Why the record cannot be read; the positions then only delimit the skipped bytes."""


def is_noop(chunk: bytes, batch: RecordBatch) -> bool:
    """Whether the batch holds one NoOpRecord and nothing else."""
    return batch.length == NOOP_SIZE - 12 and chunk[batch.position + HEADER.size : batch.end] == NOOP


def framed_records(
    chunk: bytes, batch: RecordBatch, position: int | None = None, first: int = 0
) -> Iterator[FramedRecord]:
    """Yields the records of a batch in order; never raises.

    Every byte after the batch's header belongs to exactly one of the records: if a record's length is invalid, or
    bytes remain after the last record, one record with a fault covers the rest.

    Args:
        position: where the record `first` begins; None: the batch's first record.
        first: the offset delta of the first record that is yielded.
    """
    position = batch.body if position is None else position
    end = batch.end
    for delta in range(first, batch.record_count):
        try:
            record = framed_record(chunk, position, batch, delta)
        except (IndexError, UndecodableError):
            fault = f"record {delta} of {batch.record_count} does not end within its batch"
            yield FramedRecord(position, end, delta, 0, None, None, position, fault)
            return
        yield record
        position = record.end
    if position < end:
        fault = f"{end - position} bytes after the last record of the batch"
        yield FramedRecord(position, end, batch.record_count - 1, 0, None, None, position, fault)


def framed_record(chunk: bytes, position: int, batch: RecordBatch, delta: int) -> FramedRecord:
    """Returns the record at a position.

    Raises:
        UndecodableError, IndexError: its length is invalid, or it does not end within its batch.
    """
    length, content = varint(chunk, position)
    end = content + length
    if length < 0 or end > batch.end:
        raise UndecodableError("invalid length")
    try:
        return _record_content(chunk, (position, content, end), batch.base_timestamp, delta)
    except (IndexError, UndecodableError) as error:
        reason = str(error) if isinstance(error, UndecodableError) else "it ends early"
        return FramedRecord(position, end, delta, 0, None, None, content, f"not a record: {reason}")


def value_header(chunk: bytes, start: int, end: int) -> tuple[int, int, int]:
    """Returns type and version of a metadata record's value, and the position of its body.

    Raises:
        UndecodableError: the value does not begin like a metadata record.
    """
    value = chunk[start : min(end, start + _LONGEST_VALUE_HEADER)]
    try:
        frame, position = uvarint(value, 0)
        if frame != FRAME_VERSION:
            raise UndecodableError(f"frame version {frame}, expected {FRAME_VERSION}")
        api_key, position = uvarint(value, position)
        version, position = uvarint(value, position)
    except IndexError:
        raise UndecodableError("the value ends before its type and version") from None
    return api_key, version, start + position


def control_type(chunk: bytes, key: tuple[int, int] | None) -> int:
    """Returns the type of a control record (`ControlRecordType`).

    Raises:
        UndecodableError: the record has no key, or one of another length.
    """
    if key is None or key[1] - key[0] != _CONTROL_KEY:
        raise UndecodableError("a control record without a type")
    return int.from_bytes(chunk[key[0] + 2 : key[0] + 4], "big", signed=True)


def is_control_version(version: int) -> bool:
    """Returns whether the first two bytes of a control record are a version; otherwise they may be anything."""
    return 0 <= version < 1 << 8


def record_header(chunk: bytes, batch: RecordBatch, record: FramedRecord) -> tuple[int, int, slice]:
    """Returns a record's type, its version, and where its body is.

    Raises:
        UndecodableError: the record does not hold them.
    """
    if record.fault is not None:
        raise UndecodableError(record.fault)
    if record.value is None:
        raise UndecodableError("a record without a value")
    start, end = record.value
    if not batch.is_control:
        type_, version, body = value_header(chunk, start, end)
        return type_, version, slice(body, end)
    if end - start < 2:
        raise UndecodableError("a control record without a version")
    # Every control record begins with its own version, which is one of its fields.
    version = int.from_bytes(chunk[start : start + 2], "big", signed=True)
    return control_type(chunk, record.key), version, slice(start, end)


def _record_content(chunk: bytes, span: tuple[int, int, int], base_timestamp: int, delta: int) -> FramedRecord:
    """Reads what is between a record's length and its end.

    Args:
        span: where the record begins, where its length field ends, where it ends.
    """
    start, position, end = span
    timestamp_delta, position = varint(chunk, position + 1)
    offset_delta, content_start = varint(chunk, position)
    key_length, position = varint(chunk, content_start)
    key = None if key_length < 0 else (position, position + key_length)
    position += max(key_length, 0)
    if position >= end:
        raise UndecodableError("its key exceeds it")
    value_length, position = varint(chunk, position)
    value = None if value_length < 0 else (position, position + value_length)
    position += max(value_length, 0)
    if position >= end:
        raise UndecodableError("its value exceeds it")
    headers, position = varint(chunk, position)
    fault = None
    if headers != 0 or position != end:
        fault = "not a record: headers or bytes after the value, which KRaft never writes"
    elif not NO_TIMESTAMP <= (timestamp := base_timestamp + timestamp_delta) <= LATEST_TIMESTAMP_MS:
        fault = f"not a record: timestamp {timestamp}, expected {NO_TIMESTAMP} to {LATEST_TIMESTAMP_MS}"
    elif offset_delta != delta:
        fault = f"not a record: offset delta {offset_delta}, expected {delta}"
    return FramedRecord(start, end, delta, 0 if fault else timestamp_delta, key, value, content_start, fault)


def varint(chunk: bytes, position: int) -> tuple[int, int]:
    """Returns a zigzag varint of at most ten bytes, and the position after it."""
    byte = chunk[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = byte & 0x7F
    for at in range(1, _LONGEST_VARINT):
        byte = chunk[position + at]
        value |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position + at + 1
    raise UndecodableError("a varint does not end")
