"""Records are found between the bytes of a batch, and what is no record of KRaft is named."""

import pytest

from connectors.errors import UndecodableError
from connectors.metadata.batches import HEADER, RecordBatch, scan
from connectors.metadata.record_framing import (
    FramedRecord,
    control_type,
    framed_record,
    framed_records,
    is_noop,
    value_header,
)
from connectors.metadata.value_limits import LATEST_TIMESTAMP_MS, NO_TIMESTAMP
from tests.unit.connectors.metadata.metadata_bytes import batch, batch_of, data, noop, record, uvarint, varint
from tests.unit.connectors.metadata.unusual_records import partition

BEFORE = batch([noop(), noop()])


def second_batch(records: bytes, count: int, *, timestamp: int = 1_000, behind: bytes = b"\0" * 8) -> RecordBatch:
    """Returns a batch behind another one."""
    _, found, *_ = scan(BEFORE + batch_of(records, count, base_offset=2, timestamp=timestamp) + behind)
    assert isinstance(found, RecordBatch)
    return found


def framed(records: bytes, count: int, *, timestamp: int = 1_000, behind: bytes = b"\0" * 8) -> list[FramedRecord]:
    """Returns the records of a batch between other bytes; positions count from its first record."""
    content = BEFORE + batch_of(records, count, base_offset=2, timestamp=timestamp) + behind
    origin = len(BEFORE) + HEADER.size

    def moved(span: tuple[int, int] | None) -> tuple[int, int] | None:
        return None if span is None else (span[0] - origin, span[1] - origin)

    return [
        each._replace(
            start=each.start - origin,
            end=each.end - origin,
            key=moved(each.key),
            value=moved(each.value),
            content_start=each.content_start - origin,
        )
        for each in framed_records(content, second_batch(records, count, timestamp=timestamp))
    ]


@pytest.mark.parametrize(
    ("one", "found"),
    [
        (batch([noop()], base_offset=2), True),
        (batch([noop(), noop()], base_offset=2), False),
        (batch([data(20, 0, b"\1")], base_offset=2), False),
        (batch([data(2, 0, b"\0")], base_offset=2), False),
        (batch([data(20, 0, b"\0\0")], base_offset=2), False),
    ],
)
def test_a_batch_of_one_noop_is_recognised(one: bytes, found: bool) -> None:
    content = BEFORE + one + BEFORE
    _, second, *_ = scan(content)

    assert isinstance(second, RecordBatch)
    assert is_noop(content, second) is found


@pytest.mark.parametrize("size", [1, 50, 57, 58, 120, 121, 8_183, 8_184])
def test_the_parts_of_a_record_are_found(size: int) -> None:
    value = bytes(size)
    first, second = record(value, 0), record(value, 1)
    length_and_deltas = len(varint(size + 6)) + 3
    before_value = len(first) - size - 1

    assert framed(first + second, 2) == [
        FramedRecord(0, len(first), 0, 0, None, (before_value, len(first) - 1), length_and_deltas),
        FramedRecord(
            len(first),
            2 * len(first),
            1,
            0,
            None,
            (len(first) + before_value, 2 * len(first) - 1),
            len(first) + length_and_deltas,
        ),
    ]


def test_a_key_and_a_later_timestamp_are_found() -> None:
    with_key = record(noop(), 0, key=b"abc", timestamp_delta=300)

    assert framed(with_key, 1) == [FramedRecord(0, len(with_key), 0, 300, (6, 9), (10, 14), 5)]
    assert framed(record(noop(), 0, timestamp_delta=300), 1) == [FramedRecord(0, 12, 0, 300, None, (7, 11), 5)]
    assert framed(record(b"", 0, timestamp_delta=300), 1) == [FramedRecord(0, 8, 0, 300, None, (7, 7), 5)]
    assert framed(record(None, 0, key=b""), 1) == [FramedRecord(0, 7, 0, 0, (5, 5), None, 4)]
    assert framed(record(b"", 0), 1) == [FramedRecord(0, 7, 0, 0, None, (6, 6), 4)]


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (record(noop(), 0, headers=b"\2\2k\2v"), "headers or bytes after the value, which KRaft never writes"),
        (record(noop(), 0, headers=b"\2"), "headers or bytes after the value, which KRaft never writes"),
        (record(noop(), 0, headers=b"\0\0"), "headers or bytes after the value, which KRaft never writes"),
        (record(noop(), 1), "offset delta 1, expected 0"),
        (varint(10) + b"\0\0\0\1\x09" + noop() + b"\0", "headers or bytes after the value, which KRaft never writes"),
        (varint(0), "its key exceeds it"),
        (varint(3) + b"\0\0\0", "its key exceeds it"),
        (varint(4) + b"\0\0\0\1", "its key exceeds it"),
        (varint(5) + b"\0\0\0\4\0", "its key exceeds it"),
        (varint(6) + b"\0\0\0\1\1\1", "headers or bytes after the value, which KRaft never writes"),
        (varint(5) + b"\0\0\0\1\1", "its value exceeds it"),
        (varint(6) + b"\0\0\0\1\4\0", "its value exceeds it"),
        (varint(13) + b"\0" + b"\x80" * 12, "a varint does not end"),
    ],
)
def test_a_record_that_kraft_does_not_write_has_a_fault_and_its_length(records: bytes, reason: str) -> None:
    (bad, good) = framed(records + record(noop(), 1), 2)

    assert (bad.start, bad.end, bad.delta) == (0, len(records), 0)
    assert (bad.timestamp_delta, bad.fault) == (0, f"not a record: {reason}")
    assert good.start == len(records) and good.fault is None

    (cut_off,) = framed(varint(4) + b"\0\0\0\x80", 1, behind=b"")
    assert (cut_off.end, cut_off.fault) == (5, "not a record: it ends early"), "at the end of the bytes"


def test_a_length_is_read_to_its_last_byte() -> None:
    """Its first two bytes and the bytes after them would be a record of 8,192 bytes."""
    first, *_ = framed(b"\x80\x80\0" + b"\0\0\1" + varint(8_185) + bytes(8_185) + b"\0", 1)

    assert first.end == 3


@pytest.mark.parametrize(
    ("delta", "valid"),
    [
        (NO_TIMESTAMP - 1_000, True),
        (NO_TIMESTAMP - 1_001, False),
        (LATEST_TIMESTAMP_MS - 1_000, True),
        (LATEST_TIMESTAMP_MS - 999, False),
        (2**63 - 1, False),
        (-(2**63), False),
    ],
)
def test_the_timestamp_of_a_record_has_limits(delta: int, valid: bool) -> None:
    (found,) = framed(record(noop(), 0, timestamp_delta=delta), 1, timestamp=1_000)

    assert found.timestamp_delta == (delta if valid else 0)
    expected = f"not a record: timestamp {1_000 + delta}, expected {NO_TIMESTAMP} to {LATEST_TIMESTAMP_MS}"
    assert found.fault == (None if valid else expected)


@pytest.mark.parametrize(
    ("records", "count", "delta", "reason"),
    [
        *(
            (records, 3, 1, "record 1 of 3 does not end within its batch")
            for records in (
                record(noop(), 1)[:-1],
                b"\x15" + record(noop(), 1)[1:],
                varint(-5) + bytes(20),
                varint(4_000) + bytes(30),
                b"\x80" * 12,
                b"\x80",
            )
        ),
        (b"abc", 1, 0, "3 bytes after the last record of the batch"),
    ],
)
def test_the_rest_of_a_batch_after_an_invalid_length_or_the_last_record_is_one_record_with_a_fault(
    records: bytes, count: int, delta: int, reason: str
) -> None:
    first = record(noop(), 0)

    _, bad = framed(first + records, count)

    assert bad == FramedRecord(len(first), len(first) + len(records), delta, 0, None, None, len(first), reason)


def test_type_and_version_of_a_value_are_varints_behind_the_frame_version() -> None:
    value = data(300, 200, b"body")

    assert value_header(b"??" + value + b"?", 2, 2 + len(value)) == (300, 200, 7)
    assert value_header(value[:5], 0, 5) == (300, 200, 5)
    longest = uvarint(2**35 - 1)
    assert value_header(b"\x81\x80\x80\x80\0" + longest + longest + b"?", 0, 16) == (2**35 - 1, 2**35 - 1, 15)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "the value ends before its type and version"),
        (b"\1\3", "the value ends before its type and version"),
        (b"\1\3\x80", "the value ends before its type and version"),
        (uvarint(200) + b"\3\0", "frame version 200, expected 1"),
        (b"\1\x80\x80\x80\x80\x80\1", "has a varint of more than five bytes"),
    ],
)
def test_a_value_without_type_and_version_is_refused(value: bytes, reason: str) -> None:
    with pytest.raises(UndecodableError) as refused:
        value_header(b"\1" + value + bytes(9), 1, 1 + len(value))

    assert str(refused.value) == reason


def test_the_type_of_a_control_record_is_in_its_key() -> None:
    assert control_type(b"?\0\0\1\2?", (1, 5)) == 258
    assert control_type(b"?\0\0\xff\xfe?", (1, 5)) == -2
    for key in (None, (1, 4), (1, 1), (1, 6)):
        with pytest.raises(UndecodableError, match=r"^a control record without a type$"):
            control_type(b"?\0\0\1\2?", key)


def test_one_record_is_found_at_its_position() -> None:
    records = record(noop(), 0) + record(partition(), 1)
    content = BEFORE + batch_of(records, 2, base_offset=2)
    one = second_batch(records, 2, behind=b"")
    position = one.body + len(record(noop(), 0))

    assert framed_record(content, position, one, 1).end == len(content)
    with pytest.raises(UndecodableError):
        framed_record(content, position, one._replace(length=one.length - 1), 1)
