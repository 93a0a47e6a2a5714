"""Records are found by numpy where following the lengths, one after the other, finds them."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.metadata import record_starts
from connectors.metadata.batches import HEADER, RecordBatch, scan
from connectors.metadata.byte_views import ByteViews
from connectors.metadata.record_starts import find_record_starts
from tests.hostile.hostile_log import hostile_log
from tests.unit.connectors.metadata.metadata_bytes import (
    batch,
    batch_of,
    data,
    noop,
    record,
    tinylog,
    tinysnapshot,
    varint,
)
from tests.unit.connectors.metadata.unusual_records import UNUSUAL, UNUSUAL_FRAMING, USUAL, mutated_batches, partition


def starts_by_length(payload: bytes, one: RecordBatch) -> list[int] | None:
    """Returns where each record begins; None if the lengths do not lead to the end of the batch."""
    position, starts = one.body, []
    for _ in range(one.record_count):
        starts.append(position)
        length = shift = 0
        while position < one.end:
            byte = payload[position]
            length |= (byte & 0x7F) << shift
            position, shift = position + 1, shift + 7
            if byte < 0x80:
                break
        if length & 1:
            return None
        position += length >> 1
    return starts if position == one.end else None


def assert_found(payload: bytes) -> tuple[int, int]:
    """Checks each batch that was found; returns how many were, and how many there are."""
    batches = [item for item in scan(payload) if isinstance(item, RecordBatch) and not item.is_control]
    if not batches:
        return 0, 0
    views = ByteViews(payload, 0, len(payload))
    first = np.array([one.position + HEADER.size for one in batches])
    ends, counts = np.array([(one.end, one.record_count) for one in batches]).T
    start, found = find_record_starts(views.bytes, first, ends, counts)

    expected = [starts_by_length(payload, one) for one, is_found in zip(batches, found, strict=True) if is_found]
    assert None not in expected
    assert start.tolist() == [at for each in expected for at in each or ()]
    return int(found.sum()), len(batches)


@pytest.mark.parametrize("content", [tinylog()[0], tinysnapshot()[0]], ids=["log", "snapshot"])
def test_every_record_that_kafka_wrote_is_found(content: bytes) -> None:
    found, batches = assert_found(content)

    assert found == batches


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8191, 8192, 8193])
def test_offset_deltas_of_each_length_are_found(count: int) -> None:
    assert assert_found(batch([partition(), *[noop()] * (count - 1)])) == (1, 1)


def value_of_record(length: int) -> bytes:
    """Returns the value of a record whose length field holds this length."""
    without_value = 6 if length < 70 else 7 if length < 8_199 else 8
    value = data(4, 0, b"c" * (length - without_value - 3))
    assert record(value, 0).startswith(varint(length))
    return value


@pytest.mark.parametrize("length", [50, 63, 64, 127, 128, 1_000, 8_191])
def test_records_whose_lengths_have_one_or_two_bytes_are_found(length: int) -> None:
    values = [value_of_record(length), noop(), value_of_record(length)]

    assert assert_found(batch(values) + batch(values, base_offset=3)) == (2, 2)


@pytest.mark.parametrize("length", [8_192, 20_000])
def test_records_whose_lengths_have_more_bytes_are_left_to_the_caller(length: int) -> None:
    values = [noop(), value_of_record(length), noop()]

    assert assert_found(batch([noop()]) + batch(values, base_offset=1) + batch([noop()], base_offset=4)) == (2, 3)


def test_what_looks_like_records_in_the_bytes_of_a_record_is_left_out() -> None:
    """Zeros and ones as in numbers, and a whole record inside the directory ids of another."""
    inside = b"\x0e\0\0\2\1\6\1\x14\0\0\0\0\0\0\0\0"
    records = [
        partition(directories=b"\3" + inside * 2),
        *USUAL.values(),
        partition(key=b"\0\0\0\0\1\1\1\1" + b"\0" * 12),
    ]

    assert assert_found(batch(records * 20) + batch(records, base_offset=20 * len(records))) == (2, 2)
    last, before_last = [noop(), records[0]], [records[0], noop()]
    assert assert_found(batch(last) + batch(before_last, base_offset=2)) == (2, 2)
    assert assert_found(batch(before_last)) == (1, 1)


LATER = 3
"""A timestamp delta, with which a record is no candidate."""
INSIDE = data(4, 0, b"\2" + record(noop(), 0)[:-1])
"""A value whose last bytes, with the zero behind it, are a record."""
NO_LENGTH = record(noop(), 0)[1:]


@pytest.mark.parametrize(
    ("records", "count"),
    [
        (record(INSIDE, 0, timestamp_delta=LATER), 1),
        (record(INSIDE, 0, timestamp_delta=LATER) + record(noop(), 1) + record(noop(), 2), 3),
        (record(INSIDE, 0) + record(noop(), 1), 3),
        (record(INSIDE, 0) + record(noop(), 1), 2),
        (b"\x80" + record(value_of_record(64), 0)[2:], 1),
        (NO_LENGTH + b"".join(record(noop(), at) for at in range(1, 2 * len(NO_LENGTH))), 2 * len(NO_LENGTH)),
    ],
)
def test_a_batch_with_candidates_that_are_no_records_is_left_to_the_caller(records: bytes, count: int) -> None:
    usual = [*USUAL.values()]
    before, after = batch(usual), batch(usual, base_offset=len(usual) + count)

    assert assert_found(before + batch_of(records, count, base_offset=len(usual)) + after) == (2, 3)


@pytest.mark.parametrize("block", [*range(1, 24), 64, 128])
def test_records_are_found_wherever_a_block_ends(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_starts, "_BLOCK", block)
    values = [noop(), partition(), noop()]

    assert assert_found(batch(values) + batch(values, base_offset=3)) == (2, 2)


def test_unusual_framing_between_usual_batches_is_followed_by_its_lengths() -> None:
    for odd in UNUSUAL_FRAMING.values():
        usual = [*USUAL.values(), *UNUSUAL.values()]
        assert_found(batch(usual) + batch_of(odd, 1, base_offset=len(usual)) + batch(usual, base_offset=len(usual) + 1))


def test_more_candidates_than_records_are_not_looked_at() -> None:
    zeros_and_ones = batch_of(b"\x0e\0\0\2\1\6\1\1\1\1" * 5_000, 1)

    assert assert_found(zeros_and_ones) == (0, 1)


@settings(max_examples=60)
@given(st.integers(0, 1 << 30))
def test_records_of_hostile_logs_are_found_alike(seed: int) -> None:
    assert_found(hostile_log(Random(seed), base_offset=5, secret="s3cret").payload)


@pytest.mark.parametrize("content", [tinylog()[0], tinysnapshot()[0]], ids=["log", "snapshot"])
def test_records_of_mutated_batches_are_found_alike(content: bytes) -> None:
    for payload in mutated_batches(content, count=60):
        assert_found(payload)
