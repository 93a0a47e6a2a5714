"""Large batches become rows that each take little time, with the same events."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.metadata.batch_division import PIECE_BYTES, PIECE_RECORDS, divided
from connectors.metadata.batches import RecordBatch, TornTail, scan
from connectors.metadata.decoder import decode_records
from connectors.observations.log_event import LogAdvanced, Undecodable, UnknownRecords
from connectors.observations.observation import Event
from connectors.observations.partition_run import PartitionRun
from tests.hostile.record_floods import flood
from tests.unit.connectors.metadata.metadata_bytes import batch, batch_of, noop, record, tinylog, tinysnapshot, varint


def events(payloads: Sequence[bytes]) -> list[Event]:
    """Returns the events of consecutive rows of a log, those of runs one by one."""
    found: list[Event] = []
    for payload in payloads:
        for item in decode_records(payload, base_offset=None, last_offset=None, leader_epoch=1, high_watermark=None):
            if isinstance(item, PartitionRun):
                found += item.events()
            elif not isinstance(item, LogAdvanced):
                found.append(item)
    return found


def offsets(payload: bytes) -> list[tuple[int, int]]:
    return [(one.base_offset, one.last_offset) for one in scan(payload) if isinstance(one, RecordBatch)]


FLOODS = {
    "features": PIECE_RECORDS + 1,
    "partitions": 2 * PIECE_RECORDS + 5,
    "controllers with 100 listeners": 250,
    "partitions with 10,000 replicas": 8,
    "elections": PIECE_RECORDS + 5,
    "100 voters with 100 listeners": 3,
    "unknown records": PIECE_RECORDS + 5,
    "refused partitions": PIECE_RECORDS + 5,
}
"""Records by the name of their flood: more than fit into one piece."""


@pytest.mark.parametrize("name", FLOODS)
def test_parts_of_a_large_batch_have_its_events(name: str) -> None:
    whole = batch(flood(name, 0, FLOODS[name]), base_offset=1_000, epoch=7)

    pieces = divided(whole)

    assert len(pieces) > 1
    assert all(len(piece.content) <= PIECE_BYTES + 61 or len(offsets(piece.content)) == 1 for piece in pieces)
    assert comparable(events([piece.content for piece in pieces])) == comparable(events([whole]))
    spans = [span for piece in pieces for span in offsets(piece.content)]
    assert all(before[1] + 1 == after[0] for before, after in pairwise(spans))
    assert pieces[-1].last_offset == offsets(whole)[0][1]


def comparable(found: list[Event]) -> list[Event]:
    """Returns the events without what a part may have otherwise.

    Unknown records are counted by batch, and a record whose number takes fewer bytes is shorter.
    """
    return [
        replace(event, length=0) if isinstance(event, Undecodable) else event
        for event in found
        if not isinstance(event, UnknownRecords)
    ]


def test_small_batches_stay_as_they_are() -> None:
    log, _ = tinylog()

    pieces = divided(log)

    assert b"".join(piece.content for piece in pieces) == log
    assert all(len(piece.content) <= PIECE_BYTES for piece in pieces)
    for piece in pieces:
        assert offsets(piece.content)[-1][1] == piece.last_offset


def test_a_snapshot_of_kafka_is_divided_between_its_batches() -> None:
    snapshot, _ = tinysnapshot()

    assert events([piece.content for piece in divided(snapshot)]) == events([snapshot])


def test_nothing_has_no_pieces() -> None:
    assert divided(b"") == ()


def test_a_batch_that_breaks_off_keeps_its_readable_records_and_reports_the_rest() -> None:
    readable = b"".join(record(noop(), delta) for delta in range(PIECE_RECORDS + 10))
    whole = batch_of(readable + varint(1_000_000) + b"rest", PIECE_RECORDS + 40)

    first, second = divided(whole)

    assert offsets(first.content) == [(0, PIECE_RECORDS - 1)]
    assert offsets(second.content) == [(PIECE_RECORDS, PIECE_RECORDS + 39)]
    (undecodable,) = events([first.content, second.content])
    assert isinstance(undecodable, Undecodable)
    assert undecodable.offset == PIECE_RECORDS + 10


def test_a_record_with_a_wrong_number_stays_undecodable() -> None:
    # Its number would be right in the second part, if that were not changed too.
    wrong = [record(noop(), delta if delta != PIECE_RECORDS + 3 else 3) for delta in range(PIECE_RECORDS + 10)]
    whole = batch_of(b"".join(wrong), len(wrong))

    (undecodable,) = events([piece.content for piece in divided(whole)])

    assert isinstance(undecodable, Undecodable)
    assert undecodable.offset == PIECE_RECORDS + 3


@given(st.binary(max_size=400), st.integers(1, 5_000))
def test_any_bytes_are_divided(records: bytes, count: int) -> None:
    whole = batch_of(records, count) + batch([noop()], base_offset=count)

    pieces = divided(whole)

    assert pieces[-1].last_offset == count
    assert len(b"".join(piece.content for piece in pieces)) >= len(whole)


@given(st.lists(st.integers(0, 400), max_size=5))
def test_damaged_batches_keep_their_bytes(damage: list[int]) -> None:
    chunk = bytearray(b"".join(batch([noop()] * 3, base_offset=3 * at) for at in range(5)))
    for at in damage:
        chunk[at % len(chunk)] ^= 0x55

    pieces = divided(bytes(chunk))

    assert b"".join(piece.content for piece in pieces) == bytes(chunk) or not any(
        isinstance(one, TornTail) for one in scan(bytes(chunk))
    )
