"""FollowProgress: where a restarted follower continues."""

from dataclasses import replace
from functools import reduce

from connectors.observations.observation import Observation
from connectors.store.follow_progress import FOLLOW_PROGRESS, FollowProgress, advance, new_progress
from tests.unit.connectors.store.journal_rows import SNAPSHOT_FOOTER, SNAPSHOT_HEADER, batch, piece, poll, records


def after(*rows: Observation) -> FollowProgress:
    """The position after these rows. Also checks that it survives its stored form."""
    position = reduce(advance, rows, None)
    assert position is not None
    assert FOLLOW_PROGRESS.validate_json(FOLLOW_PROGRESS.dump_json(position)) == position
    return position


def test_next_offset_is_after_the_last_batch_and_last_epoch_is_that_batchs_epoch() -> None:
    # The row holds the leader's current epoch; the batch holds the epoch in which it was written.
    position = after(records(batch(10, 4), batch(11, 5), base=10, last=11, epoch=9))
    assert (position.next_offset, position.last_epoch, position.high_watermark) == (12, 5, 12)


def test_an_empty_response_keeps_next_offset_and_last_epoch() -> None:
    position = after(records(batch(10, 4), base=10, last=10), records(base=11, last=10, epoch=9, at_ms=5))
    assert (position.next_offset, position.last_epoch, position.observed_at_ms) == (11, 4, 5)


def test_an_empty_response_to_a_fetch_of_offset_0() -> None:
    position = after(records(base=0, last=-1))
    assert (position.next_offset, position.last_epoch) == (0, None)


def test_polls_advance_only_the_clock_and_never_move_it_back() -> None:
    position = after(poll(5_000), poll(4_000))
    assert replace(position, kept_bytes=0) == new_progress(5_000)


def test_following_continues_at_the_end_of_a_complete_snapshot() -> None:
    header, content, footer = batch(0, 3, control=SNAPSHOT_HEADER), batch(1, 3), batch(2, 3, control=SNAPSHOT_FOOTER)
    half = after(piece(0, header, content), piece(1, content))
    assert half.next_offset is None
    whole = advance(half, piece(2, content, footer))
    assert (whole.next_offset, whole.last_epoch) == (500, 3)


def test_an_empty_response_at_another_offset_moves_there_without_an_epoch() -> None:
    position = after(records(batch(10, 4), base=10, last=10), records(base=40, last=39, epoch=9))
    assert (position.next_offset, position.last_epoch) == (40, None)


def test_a_payload_without_valid_batches_falls_back_to_the_rows_leader_epoch() -> None:
    assert after(records(b"nothing Kafka wrote", base=3, last=3, epoch=6)).last_epoch == 6
    assert after(records(bytes(200), base=3, last=3, epoch=6)).last_epoch == 6
