"""Violations of Raft's invariants that polls and the log can show (K043, K044)."""

import pytest

from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.monitoring import Invariant
from streaming.replay.leadership_state import EPOCHS, NODES, REMEMBERED, REMEMBERED_MS, SAME_MS, Invariants
from tests.unit.streaming.replay.log_script import poll

pytestmark = pytest.mark.kip("A041", "A055", "A087", "D022", "D025", "D052", "D055", "D064", "K043", "K044")

NOW = Millis(1_700_000_000_000)


def after(*polls: tuple[int, int, int | None]) -> Invariants:
    """Checks these polls, one per second: (leader, epoch, high watermark)."""
    invariants = Invariants()
    for second, (leader, epoch, high_watermark) in enumerate(polls):
        invariants.polled(poll(leader=leader, epoch=epoch, hw=high_watermark), Millis(NOW + 1_000 * second))
    return invariants


@pytest.mark.kip("K042")
@pytest.mark.parametrize(
    ("polls", "violations"),
    [
        ([(1, 5, 100), (1, 5, 100), (1, 5, 104)], []),
        # A new leader does not know it at the start of its epoch.
        ([(1, 5, 100), (2, 6, None), (2, 6, 103)], []),
        # A replaced leader does not know that it was replaced.
        ([(1, 5, 100), (2, 6, 103), (1, 5, 100), (2, 6, 103)], []),
        ([(1, 5, 100), (2, 6, 103), (1, 7, 110)], []),
        ([(1, 5, 100), (2, 5, 101)], [Invariant.TWO_LEADERS]),
        ([(1, 5, 100), (2, 5, 101), (1, 5, 102), (2, 5, 103)], [Invariant.TWO_LEADERS]),
        ([(1, 5, 100), (1, 4, 100)], [Invariant.EPOCH_BACK]),
        ([(1, 5, 100), (1, 5, 99)], [Invariant.HIGH_WATERMARK_BACK]),
        ([(1, 5, 100), (2, 6, None), (2, 6, 99)], [Invariant.HIGH_WATERMARK_BACK]),
    ],
)
def test_only_answers_that_raft_excludes_are_violations(
    polls: list[tuple[int, int, int | None]], violations: list[Invariant]
) -> None:
    assert [each.invariant for each in after(*polls).violations] == violations


def test_one_decreasing_epoch_is_one_violation_though_records_and_batches_of_an_observation_show_it() -> None:
    invariants = Invariants()
    for offset, epoch, second in ((9, 4, 0), (10, 4, 0), (11, 3, 0), (30, 4, 1)):
        now = Millis(NOW + 1_000 * second)
        invariants.appended(offset=Offset(offset), epoch=Epoch(epoch), before=Epoch(5), now_ms=now)
    assert [each.detail.partition(" of ")[0] for each in invariants.violations] == [
        "offset 9",
        "offset 11",
        "offset 30",
    ]


@pytest.mark.parametrize(
    ("polls", "after_ms", "violations"),
    [
        ([(1, 5, 100), (1, 5, 90)], SAME_MS, 1),
        ([(1, 5, 100), (1, 5, 90)], SAME_MS + 1, 2),
        ([(1, 5, 100), (2, 5, 101)], SAME_MS, 2),
    ],
    ids=["just reported by a poll", "reported a minute ago", "another violation"],
)
def test_a_high_watermark_found_to_be_false_is_reported_unless_a_poll_just_did(
    polls: list[tuple[int, int, int]], after_ms: int, violations: int
) -> None:
    invariants = after(*polls)
    now = Millis(NOW + 1_000 + after_ms)
    invariants.lower_high_watermark_accepted(before=Offset(100), now=Offset(80), epoch=Epoch(5), now_ms=now)

    assert len(invariants.violations) == violations
    if violations == 2:
        assert invariants.violations[-1].detail == "the high watermark decreased from 100 to 80 in epoch 5"


def test_a_restored_quorum_is_held_to_no_older_promise() -> None:
    invariants = after((1, 5, 100))
    invariants.reset()
    invariants.polled(poll(leader=1, epoch=3, hw=40), NOW)
    invariants.leader_reported(leader=NodeId(2), epoch=Epoch(5), now_ms=NOW)
    assert invariants.violations == ()


def test_violations_and_leaders_are_bounded() -> None:
    invariants = after(*((node, epoch, None) for epoch in range(1, EPOCHS + 40) for node in (1, 2)))
    assert len(invariants.leaders) == EPOCHS
    assert len(invariants.violations) == REMEMBERED
    assert invariants.violations[-1].epoch == EPOCHS + 39, "the newest are kept"
    newest = invariants.violations[-1].observed_at_ms
    invariants.expire(Millis(newest + REMEMBERED_MS))
    assert [each.observed_at_ms for each in invariants.violations] == [newest]
    invariants.expire(Millis(newest + REMEMBERED_MS + 1))
    assert invariants.violations == ()


def test_what_is_reported_again_is_not_the_first_that_is_forgotten() -> None:
    answers = [*range(1, NODES + 1), 1, NODES + 1]
    polled = after(*((node, epoch, None) for epoch, node in enumerate(answers, start=1)))
    led = Invariants()
    for epoch in (*range(1, EPOCHS + 1), 1, EPOCHS + 1):
        led.leader_reported(leader=NodeId(1), epoch=Epoch(epoch), now_ms=NOW)

    assert (1 in polled.polled_epochs, 2 in polled.polled_epochs) == (True, False)
    assert (1 in led.leaders, 2 in led.leaders) == (True, False)


def test_a_lower_epoch_that_was_accepted_has_its_own_high_watermark() -> None:
    invariants = after((1, 5, 100))
    invariants.lower_epoch_accepted(
        before=Epoch(5), epoch=Epoch(3), high_watermark=Offset(40), advanced=False, now_ms=NOW
    )
    invariants.polled(poll(leader=2, epoch=3, hw=41), NOW)
    assert invariants.violations == ()
