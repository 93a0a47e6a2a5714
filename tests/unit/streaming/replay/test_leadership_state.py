"""Leadership: which evidence of a leader and of its high watermark counts, and what violates Raft's invariants."""

import pytest

from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.monitoring import FailedObservation, Invariant, ObservationSource, Reason
from streaming.replay.leadership_state import (
    EPOCHS,
    LEADERLESS_REPORT_MS,
    LOWER_MS,
    NODES,
    REMEMBERED,
    REMEMBERED_MS,
    SAME_MS,
    UNCONFIRMED_MS,
    Invariants,
    Leadership,
)
from tests.scripts.log_script import (
    LogScript,
    apply,
    begun,
    failed,
    machine,
    poll,
    replica,
)

NOW = Millis(1_700_000_000_000)


def led(*, leader: int = 1, epoch: int = 5, high_watermark: int = 100) -> Leadership:
    """Returns what is known after one answered poll at NOW."""
    leadership = Leadership()
    assert confirmed(leadership, leader, epoch, high_watermark)
    return leadership


def confirmed(leadership: Leadership, leader: int, epoch: int, high_watermark: int, after_ms: int = 0) -> bool:
    event = poll(replica(f"{leader}-a"), leader=leader, epoch=epoch, hw=high_watermark)
    return leadership.polled(event, Millis(NOW + after_ms))


@pytest.mark.parametrize(
    ("answers", "high_watermark", "since_ms"),
    [
        ([(0, 80), (5_000, 82), (LOWER_MS, 81)], 82, LOWER_MS),
        ([(0, 80), (5_000, 82), (LOWER_MS - 1, 81)], 100, 0),
        ([(0, 80), (LOWER_MS, 81)], 100, 0),
        ([(0, 80), (5_000, 100), (LOWER_MS, 81), (LOWER_MS + 1, 81)], 100, 0),
        ([(0, 80), (5_000, 101), (LOWER_MS, 81), (LOWER_MS + 1, 81)], 101, 5_000),
    ],
    ids=["three answers of 10 s", "of less than 10 s", "two answers", "confirmed meanwhile", "higher meanwhile"],
)
def test_high_watermark_decreases_to_the_highest_of_three_answers_of_ten_seconds(
    answers: list[tuple[int, int]], high_watermark: int, since_ms: int
) -> None:
    leadership = led(high_watermark=100)
    for after_ms, reported in answers:
        leadership.advance(Offset(reported), Millis(NOW + after_ms))

    assert (leadership.high_watermark, leadership.high_watermark_since_ms) == (high_watermark, NOW + since_ms)


@pytest.mark.parametrize("lower", [80, 99])
def test_a_lower_answer_to_a_fetch_of_the_log_does_not_count_alone(lower: int) -> None:
    script, replay = begun()
    script.noops(99)
    apply(replay, [script.read()])

    quorum = apply(replay, [script.row(script.advanced(lower)), script.row(poll(replica("1-a"), hw=lower))])

    assert quorum.high_watermark == 100
    assert apply(replay, [script.row(script.advanced(101))]).high_watermark == 101


def test_lower_answers_of_the_epoch_before_do_not_count_in_a_new_one() -> None:
    leadership = led(high_watermark=100)
    for after_ms in (0, 5_000):
        leadership.advance(Offset(80), Millis(NOW + after_ms))
    assert confirmed(leadership, 2, 6, 100, 6_000)
    leadership.advance(Offset(81), Millis(NOW + LOWER_MS))

    assert leadership.high_watermark == 100


@pytest.mark.parametrize(("after_ms", "accepted"), [(UNCONFIRMED_MS, False), (UNCONFIRMED_MS + 1, True)])
def test_lower_epoch_is_accepted_once_the_known_one_was_not_confirmed_for_30_s(after_ms: int, accepted: bool) -> None:
    leadership = led(leader=1, epoch=5)

    assert confirmed(leadership, 2, 4, 90, after_ms) is accepted
    assert (leadership.leader_id, leadership.epoch) == ((2, 4) if accepted else (1, 5))


def no_leader(endpoint: str, node: int | None = None) -> FailedObservation:
    return FailedObservation(
        source=ObservationSource.LOG,
        endpoint=endpoint,
        reason=Reason.NO_LEADER,
        detail="",
        node=None if node is None else NodeId(node),
    )


@pytest.mark.parametrize(("node", "leader"), [(1, 1), (None, None)])
def test_a_controller_that_reports_no_leader_at_two_addresses_is_one(node: int | None, leader: int | None) -> None:
    leadership = led(leader=1)
    for endpoint in ("c1:9093", "10.0.0.1:9093"):
        leadership.observation_failed(no_leader(endpoint, node), NOW)

    assert leadership.leader(3) == leader


@pytest.mark.parametrize(("after_ms", "leader"), [(LEADERLESS_REPORT_MS, None), (LEADERLESS_REPORT_MS + 1, 1)])
def test_report_of_no_leader_counts_for_a_minute(after_ms: int, leader: int | None) -> None:
    leadership = led(leader=1)
    leadership.observation_failed(no_leader("c1:9093"), NOW)
    leadership.expire(Millis(NOW + after_ms))

    assert leadership.leader(1) == leader


@pytest.mark.parametrize(("epoch", "leader"), [(4, 1), (5, 1), (6, 2)])
def test_leader_change_in_the_log_counts_only_in_a_newer_epoch_than_the_polls(epoch: int, leader: int) -> None:
    leadership = led(leader=1, epoch=5)
    leadership.apply_leader_change(leader=NodeId(2), epoch=Epoch(epoch))

    assert leadership.leader_id == leader


@pytest.mark.parametrize(
    ("answers", "violations"),
    [
        ([(15_000, 4, 100), (15_000, 4, 101), (15_000, 4, 101)], [Invariant.EPOCH_BACK]),
        ([(15_000, 4, 101), (15_000, 4, 101), (15_000, 4, 101)], []),
        ([(45_000, 4, 101)], []),
        ([(15_000, 3, 100), (30_000, 4, 101)], []),
    ],
    ids=["records were committed in it", "a replaced leader", "first answer", "first answer of its epoch"],
)
def test_lower_epoch_violates_an_invariant_if_its_high_watermark_advanced_since_its_first_answer(
    answers: list[tuple[int, int, int]], violations: list[Invariant]
) -> None:
    script, replay = LogScript(), machine()
    apply(replay, [script.row(poll(replica("2-b"), leader=2, epoch=9, hw=200))])
    rows = [script.row(poll(replica("1-a"), leader=1, epoch=epoch, hw=hw), after_ms=ms) for ms, epoch, hw in answers]
    quorum = apply(replay, rows)

    assert (quorum.leader_id, quorum.leader_epoch) == (1, 4)
    assert [one.invariant for one in quorum.invariant_violations] == violations


def test_high_watermark_that_all_later_fetches_contradict_violates_an_invariant() -> None:
    script, replay = LogScript(), machine()
    rows = [script.row(poll(replica("1-a"), epoch=4, hw=90)), script.row(script.advanced(200))]
    rows += [script.row(script.advanced(80), after_ms=LOWER_MS // 2) for _ in range(3)]
    (violation,) = apply(replay, rows).invariant_violations

    assert violation.invariant is Invariant.HIGH_WATERMARK_BACK
    assert violation.detail == "the high watermark decreased from 200 to 80 in epoch 4"


def test_after_a_loss_of_metadata_lower_epochs_of_a_leader_violate_nothing() -> None:
    script, replay = LogScript(), machine()
    rows = [script.row(poll(replica("1-a"), leader=1, epoch=9, hw=200)), script.row(failed(Reason.METADATA_LOST))]
    quorum = apply(replay, [*rows, script.row(poll(replica("1-a"), leader=1, epoch=4, hw=50))])

    assert (quorum.leader_epoch, quorum.high_watermark) == (4, 50)
    assert quorum.invariant_violations == ()


def after(*polls: tuple[int, int, int | None]) -> Invariants:
    """Checks these polls, one per second: (leader, epoch, high watermark)."""
    invariants = Invariants()
    for second, (leader, epoch, high_watermark) in enumerate(polls):
        invariants.polled(poll(leader=leader, epoch=epoch, hw=high_watermark), Millis(NOW + 1_000 * second))
    return invariants


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
    assert [one.invariant for one in invariants.violations] == []
    invariants.polled(poll(leader=2, epoch=3, hw=40), NOW)
    assert [one.invariant for one in invariants.violations] == [Invariant.HIGH_WATERMARK_BACK]
