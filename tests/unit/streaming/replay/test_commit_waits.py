"""How long records wait for a majority, from polls one second apart."""

import pytest

from rules.model.identifiers import Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.replica import CommitWait, Poll, Replica
from streaming.replay.poll_history import PollHistory

CLOCK_MS = 77_000_000
"""The leader's clock is ahead of the gatherer's."""
VOTERS = tuple(ReplicaKey(id=NodeId(node), directory_id=None) for node in (1, 2, 3))


def polled(at_ms: int, lags_ms: tuple[int | None, ...], answer_ms: int | None = None) -> Poll:
    """Controller 1 leads; the others lag by so much."""

    def row(key: ReplicaKey, lag_ms: int | None) -> Replica:
        now_ms = Millis(at_ms + CLOCK_MS)
        caught_up_ms = None if lag_ms is None else Millis(now_ms - lag_ms)
        end = Offset(1_000 - (lag_ms is None or lag_ms > 0))
        return Replica(key=key, log_end_offset=end, last_fetch_ms=now_ms, last_caught_up_ms=caught_up_ms)

    voters = tuple(row(key, lag_ms) for key, lag_ms in zip(VOTERS, (0, *lags_ms), strict=True))
    return Poll(
        leader_id=NodeId(1),
        leader_epoch=Epoch(1),
        high_watermark=Offset(999),
        voters=voters,
        observers=(),
        answer_ms=answer_ms,
    )


class Polls:
    """Polls one second apart, from the beginning on."""

    def __init__(self) -> None:
        self.history, self.now_ms = PollHistory(), 1_000_000

    def add(self, seconds: int, *lags_ms: int | None, answer_ms: int | None = None) -> CommitWait | None:
        for _ in range(seconds):
            self.now_ms += 1_000
            self.history.add(polled(self.now_ms, lags_ms, answer_ms), Millis(self.now_ms))
        return self.history.waits.seen()


def average(wait: CommitWait | None) -> int | None:
    return None if wait is None else wait.average_ms


def test_faster_of_two_followers_counts_and_each_is_known() -> None:
    assert Polls().add(60, 800, 3_000, answer_ms=250) == CommitWait(
        average_ms=Millis(800), answer_ms=Millis(200), lags_ms={"1": Millis(0), "2": Millis(800), "3": Millis(3_000)}
    )


def test_followers_that_are_late_in_turns_delay_no_commit() -> None:
    polls = Polls()
    for _ in range(30):
        polls.add(1, 0, 1_500)
        assert average(polls.add(1, 1_500, 0)) == 0


@pytest.mark.parametrize(("seconds", "rounded_ms"), [(1, 0), (10, 200), (30, 600), (120, 900)])
def test_average_follows_within_half_a_minute(seconds: int, rounded_ms: int) -> None:
    polls = Polls()
    polls.add(30, 0, 0)
    assert average(polls.add(seconds, 1_000, 1_000)) == rounded_ms


def test_pause_of_ten_seconds_is_forgotten_within_a_minute() -> None:
    polls = Polls()
    polls.add(30, 0, 0)
    for second in range(1, 11):
        polls.add(1, second * 1_000, second * 1_000)
    waits = [average(polls.add(1, 0, 0)) for _ in range(60)]
    assert waits[0] == 1_600
    assert sum(wait is not None and wait >= 500 for wait in waits) < 45


def test_majority_that_is_out_of_sync_is_no_slow_commit() -> None:
    polls = Polls()
    polls.add(60, 800, 800)
    assert polls.add(1, 10_001, 10_001) is None
    assert average(polls.add(1, 0, 0)) == 0


def test_new_leader_that_does_not_know_the_others_shows_nothing() -> None:
    polls = Polls()
    assert polls.add(1, None, None) is None
    polls.add(60, 800, 800)
    assert average(polls.add(5, None, None)) == 800


def test_average_begins_again_after_a_gap() -> None:
    polls = Polls()
    polls.add(60, 800, 800)
    polls.now_ms += 10_000
    assert average(polls.add(1, 0, 0)) == 0


def test_a_leader_whose_answers_are_not_timed_does_not_answer_at_once() -> None:
    waits = Polls().add(60, 800, 3_000)

    assert waits is not None and waits.answer_ms is None
