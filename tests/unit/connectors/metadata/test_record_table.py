"""The table has every record of the batches whose lengths lead to their ends, and knows which are framed as usual."""

import numpy as np
import pytest

from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.record_framing import framed_record
from connectors.metadata.record_table import RecordTable, record_table
from tests.unit.connectors.metadata.metadata_bytes import batch, batch_of, data, noop, record, varint
from tests.unit.connectors.metadata.unusual_records import USUAL, partition

LATER = 3
"""A timestamp delta with which `find_record_starts` does not find a record, so that lengths are followed."""


def table_of(*parts: bytes) -> RecordTable:
    """Returns the table of batches, which it checks against the records that are read one by one.

    The batches do not begin at the beginning of the bytes, so that positions in both differ.
    """
    before, content = bytes(100), b"".join(parts)
    batches = [item for item in scan(content) if isinstance(item, RecordBatch)]
    moved = [one._replace(position=len(before) + one.position) for one in batches]
    table = record_table(before + content, moved)

    assert table.views.bytes[: len(content)].tobytes() == content
    assert (table.origin, table.batches) == (len(before), moved)
    for index in range(len(table.start)):
        which, delta, start = (int(column[index]) for column in (table.batch, table.delta, table.start))
        framed = framed_record(content, start, batches[which], delta)
        if table.usual[index]:
            body, end = int(table.body[index]), int(table.end[index])
            assert framed == (start, end + 1, delta, 0, None, (body - 3, end), framed.content_start, None)
            assert bytes((1, table.type[index], table.version[index])) == content[body - 3 : body]
    return table


def large(length: int) -> bytes:
    """Returns a value so long that the length field of its record holds this length."""
    without_value = next(
        size for size in range(6, 11) if len(record(bytes(length - size), 0)) == length + len(varint(length))
    )
    return data(4, 0, bytes(length - without_value - 3))


@pytest.mark.parametrize("length", [50, 63, 64, 127, 128, 1_000, 8_191, 8_192, 8_320, 16_383, 16_384, 300_001])
def test_lengths_of_up_to_three_bytes_are_followed(length: int) -> None:
    followed = record(large(length), 0, timestamp_delta=LATER) + record(large(length), 1) + record(noop(), 2)

    table = table_of(batch([noop()]), batch_of(followed, 3, base_offset=1), batch([noop()], base_offset=4))

    assert not table.unusual_batches
    assert table.batch.tolist() == [0, 1, 1, 1, 2]
    assert table.delta.tolist() == [0, 0, 1, 2, 0]
    assert table.usual.tolist() == [True, False, length < 8_192, True, True]


def test_records_of_the_fewest_bytes_are_followed() -> None:
    shortest = record(None, 0) + record(None, 1)

    table = table_of(batch_of(shortest, 2), batch([noop()], base_offset=2))

    assert len(shortest) == 14
    assert not table.unusual_batches
    assert table.usual.tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("records", "count"),
    [
        (record(noop(), 0)[:6], 1),
        (record(noop(), 0, timestamp_delta=LATER)[:-1], 1),
        (record(noop(), 0, timestamp_delta=LATER) + b"\0", 1),
        (varint(-4) + bytes(20), 1),
        (b"\x81\1" + bytes(64), 1),
        (b"\x92\x80\0" + b"\0\0\1\x08" + noop() + b"\0", 1),
        (b"\x80\x80\x80\1" + bytes(1 << 20), 1),
        (b"\x80\x80\x80\1" + bytes((1 << 20) - 1), 1),
        (record(partition(), 0, timestamp_delta=LATER), 2),
        (record(partition(), 0, timestamp_delta=LATER) + b"\xc0\x80", 2),
    ],
)
def test_a_batch_with_lengths_that_no_kafka_writes_is_not_in_the_table(records: bytes, count: int) -> None:
    """They exceed the batch, do not lead to its end, are negative, or have more bytes than needed or than three."""
    usual = [*USUAL.values()]
    before, after = batch(usual), batch([noop()], base_offset=len(usual) + count)
    odd = batch_of(records, count, base_offset=len(usual))

    table, last = table_of(before, odd, after), table_of(before, odd)

    assert table.unusual_batches == last.unusual_batches == [(len(usual), 1)]
    assert table.batch.tolist() == [0] * len(usual) + [2]
    assert last.batch.tolist() == [0] * len(usual)
    assert table.usual.all() and last.usual.all()


def test_batches_of_all_kinds_keep_their_order() -> None:
    followed = record(noop(), 0, timestamp_delta=LATER) + record(noop(), 1)
    parts = [
        batch([noop()] * 2),
        batch_of(b"\0", 1, base_offset=2),
        batch([noop()] * 3, base_offset=3),
        batch_of(followed, 2, base_offset=6),
        batch([noop()] * 4, base_offset=8),
        batch_of(b"\0", 1, base_offset=12),
        batch_of(followed, 2, base_offset=13),
    ]

    table = table_of(*parts)

    assert table.unusual_batches == [(2, 1), (11, 5)]
    assert table.batch.tolist() == [0] * 2 + [2] * 3 + [3] * 2 + [4] * 4 + [6] * 2
    assert table.delta.tolist() == [0, 1, 0, 1, 2, 0, 1, 0, 1, 2, 3, 0, 1]
    assert np.flatnonzero(~table.usual).tolist() == [5, 11]


ODD = {
    "attributes": b"\x14\1\0\2\1\x08\1\x14\0\0\0",
    "another offset delta": record(noop(), 2),
    "a later timestamp": record(noop(), 1, timestamp_delta=LATER),
    "an empty key": record(noop(), 1, key=b""),
    "a key": record(noop(), 1, key=b"\1"),
    "a header": record(noop(), 1, headers=b"\2\2k\2v"),
    "headers that are missing": record(noop(), 1, headers=b"\2"),
    "a byte after the headers": record(noop(), 1, headers=b"\0\0"),
    "no value": record(None, 1),
    "an empty value": record(b"", 1),
    "a value of one byte": record(b"\1", 1),
    "a value of two bytes": record(b"\1\x14", 1),
    "a frame version in two bytes": record(b"\x81\0" + noop()[1:], 1),
    "frame version 2": record(data(20, 0, b"\0", frame=2), 1),
    "a type of two bytes": record(data(200, 0, b"\0"), 1),
    "a version of two bytes": record(data(20, 200, b"\0"), 1),
    "a length that overlaps the value": b"\x16\0\0\2\1\x88\x80" + noop() + b"\0",
    "a value of which the length has three bytes": record(data(4, 0, bytes(8_192)), 1),
}


@pytest.mark.parametrize("name", ODD)
def test_a_record_that_is_not_framed_as_kafka_frames_it_is_not_usual(name: str) -> None:
    table = table_of(batch_of(record(noop(), 0) + ODD[name] + record(noop(), 2), 3))

    assert table.usual.tolist() == [True, False, True]


def test_no_length_is_followed_in_batches_that_kafka_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_chunk: bytes, one: RecordBatch, _starts: list[int]) -> bool:
        raise AssertionError(f"the records of the batch at {one.position} were not found by numpy")

    monkeypatch.setattr("connectors.metadata.record_table._append_starts", fail)

    table = table_of(batch([*USUAL.values()]), batch([noop()], base_offset=len(USUAL)))

    assert table.usual.all()


@pytest.mark.parametrize("delta", [62, 63, 64, 8_190, 8_191, 8_192, 16_384, 50_000])
def test_offset_deltas_of_up_to_three_bytes_are_usual(delta: int) -> None:
    table = table_of(batch([noop()] * delta + [partition()] * 2))

    assert table.usual.all()
    assert table.delta.tolist() == [*range(delta + 2)]
