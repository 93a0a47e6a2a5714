"""Records are found by numpy where following the lengths, one after the other, finds them."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.metadata.batches import HEADER, RecordBatch, scan
from connectors.metadata.byte_views import ByteViews
from connectors.metadata.record_starts import find_record_starts
from tests.hostile.hostile_log import hostile_log
from tests.unit.connectors.metadata.metadata_bytes import batch, batch_of, noop, tinylog, tinysnapshot
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


def test_what_looks_like_records_in_the_bytes_of_a_record_is_left_out() -> None:
    """Zeros and ones as in numbers, and a whole record inside the directory ids of another."""
    inside = b"\x0e\0\0\2\1\6\1\x14\0\0\0\0\0\0\0\0"
    records = [
        partition(directories=b"\3" + inside * 2),
        *USUAL.values(),
        partition(key=b"\0\0\0\0\1\1\1\1" + b"\0" * 12),
    ]

    assert assert_found(batch(records * 20) + batch(records, base_offset=20 * len(records))) == (2, 2)


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
