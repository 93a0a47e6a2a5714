"""Record batches: framing, CRC, torn tails, and rejected batches with their reasons."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.metadata.batch_writer import with_position
from connectors.metadata.batches import HEADER, BadBatch, RecordBatch, TornTail, scan, write_crc
from connectors.metadata.value_limits import LARGEST_OFFSET
from tests.unit.connectors.metadata.metadata_bytes import batch, batch_of, noop, tinylog


def test_a_batch_has_its_position_offsets_and_header_fields() -> None:
    log = batch([noop(), noop()], base_offset=7, epoch=3, timestamp=1000) + batch([noop()], base_offset=9, epoch=4)

    first, second = scan(log)

    assert isinstance(first, RecordBatch)
    assert isinstance(second, RecordBatch)
    assert (first.base_offset, first.last_offset, first.record_count) == (7, 8, 2)
    assert (first.leader_epoch, first.base_timestamp, first.max_timestamp) == (3, 1000, 1000)
    assert (first.is_control, first.compression) == (False, "none")
    assert (second.position, second.end) == (first.size, len(log))


def test_a_batch_at_another_position_differs_in_offset_and_epoch_only() -> None:
    (before,) = scan(batch([noop(), noop()], base_offset=7, epoch=3, timestamp=1000))
    moved = with_position(
        batch([noop(), noop()], base_offset=7, epoch=3, timestamp=1000), base_offset=9, leader_epoch=5
    )

    assert isinstance(before, RecordBatch)
    assert list(scan(moved, expected=9)) == [before._replace(base_offset=9, leader_epoch=5)]


def test_a_log_written_by_kafka_is_read_without_errors() -> None:
    log, sidecar = tinylog()

    batches = list(scan(log, expected=0))

    assert all(isinstance(item, RecordBatch) for item in batches)
    assert len(batches) == sidecar["batches"]
    assert sum(item.is_control for item in batches if isinstance(item, RecordBatch)) == sidecar["control_batches"]
    last = batches[-1]
    assert isinstance(last, RecordBatch)
    assert last.last_offset == sidecar["last_offset"]
    assert last.leader_epoch == sidecar["last_epoch"]


@pytest.mark.parametrize("base_offset", [1, -1])
def test_a_cut_at_any_byte_of_the_last_batch_is_a_torn_tail(base_offset: int) -> None:
    whole = batch([noop()], base_offset=0)
    for cut in range(1, len(whole)):
        first, tail = scan(whole + batch([noop()], base_offset=base_offset)[:cut], expected=0)

        assert isinstance(first, RecordBatch)
        assert isinstance(tail, TornTail)
        assert tail.size == cut
        assert tail.missing == (None if cut < 12 else len(whole) - cut)
        assert tail.base_offset == (None if cut < 8 else base_offset)


@pytest.mark.parametrize(("written", "base_offset"), [(0, 0), (-1, None)], ids=["first", "redacted"])
def test_a_damaged_batch_is_reported_and_the_next_is_read(written: int, base_offset: int | None) -> None:
    damaged = bytearray(batch([noop()], base_offset=written))
    damaged[-1] ^= 1

    bad, good = scan(bytes(damaged) + batch([noop()], base_offset=1), expected=0)

    assert isinstance(bad, BadBatch)
    assert bad.base_offset == base_offset
    assert bad.reason == "the CRC-32C does not match: the batch is damaged"
    assert bad.header is None
    assert isinstance(good, RecordBatch)


def with_time(field: int, time_ms: int) -> bytes:
    odd = bytearray(batch([noop()], base_offset=7, timestamp=1000))
    odd[field : field + 8] = time_ms.to_bytes(8, "big", signed=True)
    write_crc(odd)
    return bytes(odd)


LATEST = "expected -1 to 253370764800000"


@pytest.mark.parametrize(
    ("rejected", "expected", "reason"),
    [
        (batch([noop()], base_offset=7, attributes=4), 7, "compressed with zstd, which KRaft never writes: not read"),
        (batch([noop()], base_offset=4_000_007), 7, "base offset 4000007, expected 7"),
        (
            batch([noop()], base_offset=7, last_offset_delta=4),
            7,
            "a record count of 1 does not match the last offset delta 4",
        ),
        (batch([noop()] * 2, base_offset=LARGEST_OFFSET), None, f"invalid base offset {LARGEST_OFFSET}"),
        (with_time(27, -2), 7, f"invalid base and maximal timestamp -2 and 1000, {LATEST}"),
        (with_time(35, -2), 7, f"invalid base and maximal timestamp 1000 and -2, {LATEST}"),
        (
            with_time(35, 253_370_764_800_001),
            7,
            f"invalid base and maximal timestamp 1000 and 253370764800001, {LATEST}",
        ),
    ],
)
def test_an_undamaged_batch_that_is_not_read_has_its_reason_and_its_header(
    rejected: bytes, expected: int | None, reason: str
) -> None:
    (bad,) = scan(rejected, expected=expected)

    assert isinstance(bad, BadBatch)
    assert (bad.position, bad.size, bad.reason) == (0, len(rejected), reason)
    assert bad.header is not None


def test_the_batch_after_one_of_another_offset_is_expected_where_that_one_should_end() -> None:
    log = b"".join(batch([noop()], base_offset=offset) for offset in (5, 4_000_007, 7))

    assert [type(item) for item in scan(log, expected=5)] == [RecordBatch, BadBatch, RecordBatch]
    (last,) = scan(batch([noop()] * 2, base_offset=LARGEST_OFFSET - 1))
    assert isinstance(last, RecordBatch), "the largest offset is that of the last record"


def test_a_batch_without_records_is_rejected_by_its_record_count() -> None:
    """It is as short as a batch can be: its header alone."""
    empty = batch_of(b"", 0, base_offset=3)

    (bad,) = scan(empty)
    (torn,) = scan(empty[:-1])

    assert isinstance(bad, BadBatch)
    assert (bad.base_offset, bad.size) == (3, 61)
    assert bad.reason == "a record count of 0 does not match the last offset delta -1"
    assert torn == TornTail(position=0, size=60, base_offset=3, missing=1)


def _of_magic_1(records: bytes) -> bytes:
    old = bytearray(batch_of(records, 1, base_offset=3))
    old[16] = 1
    return bytes(old)


@pytest.mark.parametrize("records", [b"", bytes(30)], ids=["shortest", "longer"])
@pytest.mark.parametrize("following", [b"", batch([noop()], base_offset=4)], ids=["last", "followed"])
def test_a_batch_of_an_older_magic_is_skipped_by_its_length(records: bytes, following: bytes) -> None:
    old = _of_magic_1(records)

    bad, *rest = scan(old + following)

    assert bad == BadBatch(position=0, size=61 + len(records), base_offset=3, reason="magic 1, expected 2")
    assert [type(item) for item in rest] == [RecordBatch] * bool(following)


def test_a_torn_batch_of_an_older_magic_ends_the_scan() -> None:
    (bad,) = scan(_of_magic_1(bytes(30))[:-1])

    assert bad == BadBatch(position=0, size=90, base_offset=None, reason="magic 1, expected 2: the rest is skipped")


def test_an_invalid_length_ends_the_scan() -> None:
    (bad,) = scan(bytes(HEADER.size + 30))

    assert isinstance(bad, BadBatch)
    assert (bad.size, bad.base_offset) == (91, None)
    assert bad.reason == "invalid batch length 0: the rest is skipped"


@given(st.binary(max_size=400))
def test_scanning_any_bytes_never_raises_and_accounts_for_every_byte(chunk: bytes) -> None:
    assert sum(item.size for item in scan(chunk)) == len(chunk)


@given(st.integers(0, 999), st.integers(0, 7), st.integers(0, 999))
def test_scanning_batches_with_a_flipped_bit_accounts_for_every_byte(at: int, bit: int, cut: int) -> None:
    log = tinylog()[0][: 3000 + cut]
    flipped = bytearray(log)
    flipped[at] ^= 1 << bit

    items = list(scan(bytes(flipped), expected=0))

    assert sum(item.size for item in items) == len(log)
    assert [item.position for item in items] == sorted(item.position for item in items)
