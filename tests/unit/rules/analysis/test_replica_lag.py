"""How long ago a replica last fetched, also where only an earlier leader reported it; and its lag over a window."""

from dataclasses import replace

import pytest

from rules.analysis.replica_lag import (
    Liveness,
    Readiness,
    fetch_age_ms,
    lag_ms,
    liveness,
    readiness,
    same_replica,
    since_last_fetch_ms,
)
from rules.evaluate import thresholds_for
from rules.model.identifiers import Millis, ReplicaKey
from rules.model.quorum import LagSample, Quorum
from tests.unit.rules.situation import LOG_END, NOW, healthy, key, present, row, with_history, with_rows

POLLED_AT_MS = NOW - 200


def only_reported_by_an_earlier_leader(sampled_ago_ms: int, fetch_age_ms: int) -> Quorum:
    """The new leader does not know when voter 2 fetched; the earlier leader's last answer is this old."""
    quorum = with_rows(healthy(), 2, last_fetch_ms=None, last_caught_up_ms=None)
    at = Millis(POLLED_AT_MS - sampled_ago_ms)
    samples = (
        LagSample(observed_at_ms=Millis(at - 5_000), lag=0, lag_ms=Millis(0), fetch_age_ms=Millis(0)),
        LagSample(observed_at_ms=at, lag=0, lag_ms=Millis(0), fetch_age_ms=Millis(fetch_age_ms)),
        LagSample(observed_at_ms=Millis(POLLED_AT_MS), lag=None, lag_ms=None, fetch_age_ms=None),
    )
    return with_history(quorum, replace(quorum.histories[key(2)], samples=samples))


@pytest.mark.parametrize(
    ("sampled_ago_ms", "fetch_age_ms", "expected"),
    [
        (4_000, 3_000, Liveness.FETCHING),
        (10_000, 0, Liveness.FETCHING),
        (4_000, 6_001, Liveness.NOT_FETCHING),
        (9_000, 3_000, Liveness.NOT_FETCHING),
    ],
)
def test_the_age_of_an_earlier_answer_is_added_to_the_age_that_it_reported(
    sampled_ago_ms: int, fetch_age_ms: int, expected: Liveness
) -> None:
    quorum = only_reported_by_an_earlier_leader(sampled_ago_ms, fetch_age_ms)
    assert quorum.poll is not None

    assert since_last_fetch_ms(quorum, quorum.poll, key(2)) == sampled_ago_ms + fetch_age_ms
    assert liveness(quorum, quorum.poll, key(2), thresholds_for({})["no-leader"]) is expected


@pytest.mark.parametrize(("behind", "age"), [(0, 0), (100, 0), (101, None)])
def test_after_the_leaders_clock_was_set_back_the_end_of_a_log_shows_who_follows(behind: int, age: int | None) -> None:
    """Kafka keeps a replica's later times (LeaderState.ReplicaState), also if it has failed since."""
    poll = present(healthy().poll)
    frozen = Millis(NOW + 3_600_000)
    replica = replace(row(key(2), end=LOG_END - behind), last_fetch_ms=frozen, last_caught_up_ms=frozen)
    assert (fetch_age_ms(poll, replica), lag_ms(poll, replica)) == (age, age)


def test_a_replica_that_no_kept_poll_reported_has_no_last_fetch() -> None:
    quorum = only_reported_by_an_earlier_leader(4_000, 3_000)
    assert quorum.poll is not None

    assert since_last_fetch_ms(replace(quorum, histories={}), quorum.poll, key(2)) is None


def test_the_leader_fetches_and_has_caught_up_and_without_its_row_nothing_is_known() -> None:
    poll = present(healthy().poll)
    leader, follower = poll.leader, row(key(2), lag_ms=700, fetched_ago_ms=300)
    assert leader is not None
    assert (fetch_age_ms(poll, leader), lag_ms(poll, leader)) == (0, 0)
    assert (fetch_age_ms(poll, follower), lag_ms(poll, follower)) == (300, 700)
    assert (fetch_age_ms(poll, row(key(2))), lag_ms(poll, row(key(2)))) == (0, 0)

    without = replace(poll, voters=tuple(each for each in poll.voters if each is not leader))
    assert without.leader is None
    assert (fetch_age_ms(without, follower), lag_ms(without, follower)) == (None, None)


def test_a_replica_whose_directory_is_not_known_may_be_that_of_any_directory_of_its_node() -> None:
    unknown = ReplicaKey(id=key(2).id)
    assert same_replica(unknown, key(2))
    assert same_replica(key(2), unknown)
    assert not same_replica(key(2, "newDirOf2"), key(2))
    assert not same_replica(unknown, key(3))


LIMIT_MS = Millis(2_000)


def sample(lag: int | None, lag_ms: int | None) -> LagSample:
    """Returns a sample of the lag in records and in milliseconds."""
    lag_duration = None if lag_ms is None else Millis(lag_ms)
    return LagSample(observed_at_ms=Millis(0), lag=lag, lag_ms=lag_duration, fetch_age_ms=None)


CAUGHT_UP, FAR, LESS_FAR, NO_LAG = sample(0, 0), sample(90, 9_000), sample(80, 8_000), sample(None, None)
AT_THE_LIMIT, ABOVE_LIMIT = sample(1, 2_000), sample(1, 2_001)
NEVER = sample(1, None)
"""It has fetched, and has never caught up with this leader."""
SHORT_TIME, LONG_TIME = sample(None, 500), sample(None, 9_000)


@pytest.mark.parametrize(
    ("samples", "state"),
    [
        ((), Readiness.UNKNOWN),
        ((CAUGHT_UP, CAUGHT_UP), Readiness.UNKNOWN),
        ((CAUGHT_UP, CAUGHT_UP, CAUGHT_UP), Readiness.READY),
        ((AT_THE_LIMIT, CAUGHT_UP, CAUGHT_UP), Readiness.READY),
        # Caught up now is not enough: every sample of the window must be.
        ((ABOVE_LIMIT, ABOVE_LIMIT, CAUGHT_UP), Readiness.CATCHING_UP),
        ((FAR, FAR, LESS_FAR), Readiness.CATCHING_UP),
        # The newest counts against the oldest, and not against those between them.
        ((FAR, sample(50, 5_000), LESS_FAR), Readiness.CATCHING_UP),
        ((LESS_FAR, sample(95, 9_500), FAR), Readiness.LAGGING),
        ((FAR, FAR, FAR), Readiness.LAGGING),
        ((LESS_FAR, FAR, FAR), Readiness.LAGGING),
        ((NEVER, NEVER, NEVER), Readiness.LAGGING),
        # A new leader does not know the lag of every replica: a sample without a lag does not count.
        ((CAUGHT_UP, CAUGHT_UP, NO_LAG), Readiness.UNKNOWN),
        ((CAUGHT_UP, CAUGHT_UP, CAUGHT_UP, NO_LAG), Readiness.READY),
        ((FAR, FAR, LESS_FAR, NO_LAG, NO_LAG), Readiness.CATCHING_UP),
        # Without a log end offset the time alone is evaluated, and it is not known whether the lag shrinks.
        ((SHORT_TIME, SHORT_TIME, SHORT_TIME), Readiness.READY),
        ((LONG_TIME, LONG_TIME, LONG_TIME), Readiness.LAGGING),
        # Only the samples of the window count: the newest four.
        ((FAR, CAUGHT_UP, CAUGHT_UP, CAUGHT_UP, CAUGHT_UP), Readiness.READY),
        ((LESS_FAR, FAR, FAR, FAR, FAR), Readiness.LAGGING),
        ((FAR, LESS_FAR, LESS_FAR, LESS_FAR, LESS_FAR), Readiness.LAGGING),
    ],
)
def test_readiness_is_evaluated_on_the_window_and_not_on_one_sample(
    samples: tuple[LagSample, ...], state: Readiness
) -> None:
    assert readiness(samples, limit_ms=LIMIT_MS, window=4) is state
