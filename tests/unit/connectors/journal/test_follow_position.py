"""Where a restarted follower goes on."""

import json
from functools import reduce

from connectors.journal.follow_position import Progress, SnapshotProgress, advance, from_json, to_json
from connectors.observation import Observation
from tests.unit.connectors.journal.journal_rows import SNAPSHOT_FOOTER, SNAPSHOT_HEADER, batch, piece, poll, records


def after(*rows: Observation) -> Progress:
    progress = reduce(advance, rows, None)
    assert progress is not None
    assert from_json(json.loads(json.dumps(to_json(progress)))) == progress
    return progress


def test_after_the_last_batch_with_that_batchs_own_epoch() -> None:
    # The row says what epoch the leader has now; the batch says what epoch it was written in.
    progress = after(records(batch(10, 4), batch(11, 5), base=10, last=11, epoch=9))
    assert (progress.next_offset, progress.last_epoch, progress.high_watermark) == (12, 5, 12)


def test_an_empty_answer_keeps_position_and_epoch() -> None:
    progress = after(records(batch(10, 4), base=10, last=10), records(base=11, last=10, epoch=9, at_ms=5))
    assert (progress.next_offset, progress.last_epoch, progress.observed_at_ms) == (11, 4, 5)


def test_an_empty_answer_to_a_fetch_of_offset_zero() -> None:
    progress = after(records(base=0, last=-1))
    assert (progress.next_offset, progress.last_epoch) == (0, None)


def test_polls_move_only_the_clock_and_never_backwards() -> None:
    progress = after(poll(5_000), poll(4_000))
    assert progress == Progress(observed_at_ms=5_000)


def test_a_complete_snapshot_is_a_place_to_go_on_from() -> None:
    header, content, footer = batch(0, 3, control=SNAPSHOT_HEADER), batch(1, 3), batch(2, 3, control=SNAPSHOT_FOOTER)
    half = after(piece(0, header, content), piece(1, content))
    assert half.next_offset is None
    assert half.snapshot == SnapshotProgress(
        end_offset=500, epoch=3, pieces=2, payload_bytes=len(header + content + content), complete=False
    )
    whole = advance(half, piece(2, content, footer))
    assert whole.snapshot is not None
    assert whole.snapshot.complete
    assert (whole.next_offset, whole.last_epoch) == (500, 3)


def test_a_snapshot_begun_again_counts_again() -> None:
    progress = after(piece(0, batch(0, 3)), piece(1, batch(1, 3)), piece(0, batch(0, 3), end_offset=700))
    assert progress.snapshot is not None
    assert (progress.snapshot.end_offset, progress.snapshot.pieces) == (700, 1)


def test_a_piece_without_those_before_it_is_nothing_to_continue() -> None:
    assert after(piece(0, batch(0, 3)), piece(2, batch(2, 3))).snapshot is None
    assert after(piece(1, batch(0, 3))).snapshot is None


def test_a_payload_that_is_no_batches_falls_back_on_the_row() -> None:
    assert after(records(b"nothing Kafka wrote", base=3, last=3, epoch=6)).last_epoch == 6
    assert after(records(bytes(200), base=3, last=3, epoch=6)).last_epoch == 6
