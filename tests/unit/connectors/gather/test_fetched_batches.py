"""fetched_batches: which offsets are damaged, whatever bytes of the log are, and what is read in their place."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.errors import DamagedLogError, ObservationError
from connectors.gather.fetched_batches import FetchedBatches, fetched_batches
from connectors.kafka.messages import FetchResult
from connectors.metadata.batches import HEADER, RecordBatch, scan
from rules.model.identifiers import Epoch, NodeId, Offset
from rules.model.monitoring import DamagedBatch
from tests.unit.connectors.gather.log_bytes import batch

BATCHES = [batch(offset, 2, epoch=3) for offset in range(30, 50, 2)]
LOG = b"".join(BATCHES)
SIZE = len(BATCHES[0])
AT = 4 * SIZE
"""Where the batch of offsets 38 and 39 begins."""


def read(records: bytes, *, offset: int = 30, leader_epoch: int | None = 3, high_watermark: int = 50) -> FetchedBatches:
    response = FetchResult(
        error=0,
        leader_id=NodeId(1),
        leader_epoch=None if leader_epoch is None else Epoch(leader_epoch),
        leader=None,
        high_watermark=Offset(high_watermark),
        records=records,
    )
    return fetched_batches(response, offset=offset, epoch=3)


def overwritten(at: int, content: bytes) -> bytes:
    return LOG[:at] + content + LOG[at + len(content) :]


def ranges(found: FetchedBatches) -> list[tuple[int | None, int | None, int | None]]:
    return [(one.offset, one.last_offset, one.epoch) for _, one in found.damaged]


@pytest.mark.parametrize(
    ("at", "content", "why"),
    [
        (AT, bytes(8), "a batch has base offset 0, expected 38"),
        (AT, b"\0\0\0\1\0\0\0\0", "a batch has base offset 4294967296, expected 38"),
        (AT + 7, b"\x28", "a batch has base offset 40, expected 38"),
        (AT + 8, bytes(4), "invalid batch length 0"),
        (AT + 8, b"\x7f\xff\xff\0", "invalid batch length 2147483392"),
        (AT + 4, b"\xff" * 8, "invalid batch length -1"),
        (AT + 4, b"damaged!", "invalid batch length 1734698017"),
        (AT + 12, b"\0\1\0\0", "a batch has leader epoch 65536, expected 3 to 3"),
        (AT + 12, bytes(4), "a batch has leader epoch 0, expected 3 to 3"),
        (AT + 12, b"\xff" * 4, "a batch has leader epoch -1, expected 3 to 3"),
    ],
)
def test_a_damaged_header_is_named_and_its_records_are_read(at: int, content: bytes, why: str) -> None:
    """The checksum does not cover what is damaged: the records are as the leader wrote them."""
    found = read(overwritten(at, content))

    # Kafka notices an invalid length, and only that, when it starts.
    damage = DamagedBatch(
        offset=Offset(38), last_offset=Offset(39), epoch=Epoch(3), outside_checksum="length" not in why
    )
    assert found.damaged == [(f"offsets 38 to 39: {why}", damage)]
    assert b"".join(one.content for one in found.batches) == LOG


@pytest.mark.parametrize(
    ("at", "content", "last"),
    [
        (AT + HEADER.size, b"y", 39),
        (AT + 8, (SIZE - 13).to_bytes(4, "big"), 39),
        (AT + 17, bytes(4), 39),
        (AT + 23, b"\0\0\0\7", 39),
        (AT + SIZE - 1, b"\xab" * 30, 41),
        (AT, bytes(3 * SIZE - 5), 43),
    ],
    ids=["body", "length and body", "CRC", "last offset delta", "body and next header", "three batches"],
)
def test_damage_ends_where_the_next_sound_batch_begins(at: int, content: bytes, last: int) -> None:
    found = read(overwritten(at, content))

    assert ranges(found) == [(38, last, 3)]
    assert [(one.base_offset, one.last_offset) for one in found.batches][-1] == (48, 49)
    (damaged,) = (one for one in found.batches if one.base_offset == 38)
    sound = b"".join(one.content for one in found.batches if one is not damaged)
    assert sound == LOG[:AT] + LOG[AT + (last - 37) // 2 * SIZE :]
    # A row with them has one damaged batch with these offsets, after which its reader goes on.
    header = RecordBatch(0, *HEADER.unpack_from(damaged.content))
    assert (header.base_offset, header.last_offset, header.size) == (38, last, len(damaged.content))


def test_damage_before_a_damaged_header_is_kept() -> None:
    found = read(overwritten(AT - 3 * SIZE - 1, b"y")[: AT + 8] + bytes(4) + LOG[AT + 12 :])
    assert ranges(found) == [(30, 31, 3), (38, 39, 3)]


def test_damaged_bytes_that_a_leader_passes_over_are_missing() -> None:
    """Kafka finds the batch to send by the headers: one with a lower base offset is taken for an older one."""
    found = read(LOG[AT + SIZE :], offset=38)

    assert ranges(found) == [(38, 39, 3)]
    assert found.damaged[0][0] == "offsets 38 to 39: a batch has base offset 40, expected 38"
    assert len(found.batches[0].content) == HEADER.size
    assert b"".join(one.content for one in found.batches[1:]) == LOG[AT + SIZE :]


def test_the_only_batch_with_an_impossible_base_offset_is_damaged_itself() -> None:
    with pytest.raises(DamagedLogError, match="the batch at offset 38: a batch has base offset 4294967296"):
        read(b"\0\0\0\1\0\0\0\0" + BATCHES[4][8:], offset=38)


def test_a_batch_in_which_a_snapshot_ends_is_the_first_one() -> None:
    found = read(LOG[AT:], offset=39)
    assert (found.batches[0].base_offset, found.damaged) == (38, [])


@given(st.integers(0, len(LOG) - 1), st.binary(min_size=1, max_size=2 * SIZE))
def test_whatever_is_damaged_the_other_batches_are_read_and_no_offset_is_missing(at: int, content: bytes) -> None:
    records = overwritten(at, content)[: len(LOG)]
    try:
        found = read(records)
    except (DamagedLogError, ObservationError):
        assert at < SIZE, "only damage at the beginning stops the reading"
        return

    for before, after in pairwise(found.batches):
        assert after.base_offset == before.last_offset + 1
    damaged = [range(one.offset or 0, (one.last_offset or 0) + 1) for _, one in found.damaged]
    for number, whole in enumerate(BATCHES):
        offset = 30 + 2 * number
        is_damaged = records[number * SIZE : (number + 1) * SIZE] != whole
        if offset <= found.batches[-1].last_offset:
            assert is_damaged == any(offset in one for one in damaged)
            assert is_damaged or any(one.content == whole for one in found.batches)
    assert all(len(list(scan(one.content))) == 1 for one in found.batches)
