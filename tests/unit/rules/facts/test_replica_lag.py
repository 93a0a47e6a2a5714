"""The ages of a row by the leader's clock, whether two keys name one replica, and a lag over a window of samples.

How replicas fetch is in the cases of the rules: `voter-lagging`, `observer-lagging` and `failure-tolerance`.
"""

from dataclasses import replace

import pytest

from rules.facts.following import fetch_age_ms, lag_ms, same_replica
from rules.facts.replica_lag import Readiness, readiness
from rules.model.identifiers import Millis, Offset, ReplicaKey
from rules.model.replica import LagSample, Poll, Replica
from tests.situation.commands import situation
from tests.situation.situation import NOW, controller_key


def the_poll(*commands: str) -> Poll:
    """Returns the newest poll of a situation. Voter 3 leads."""
    poll = situation(*commands).poll
    assert poll is not None
    return poll


def row_of(poll: Poll, node: int) -> Replica:
    return next(row for row in poll.voters if row.key.id == node)


@pytest.mark.parametrize(("behind", "age"), [(0, 0), (100, 0), (101, None)])
def test_after_the_leaders_clock_was_set_back_the_end_of_a_log_shows_who_follows(behind: int, age: int | None) -> None:
    """Kafka keeps a replica's later times (LeaderState.ReplicaState), also if it has failed since."""
    poll = the_poll()
    leader, later = row_of(poll, 3), Millis(NOW + 3_600_000)
    assert leader.log_end_offset is not None
    end = Offset(leader.log_end_offset - behind)
    row = replace(row_of(poll, 2), log_end_offset=end, last_fetch_ms=later, last_caught_up_ms=later)

    assert (fetch_age_ms(poll, row), lag_ms(poll, row)) == (age, age)


def test_the_leader_fetches_and_has_caught_up_and_without_its_row_nothing_is_known() -> None:
    poll = the_poll("behind 2 400ms", "stop-fetching 2 since 300ms")
    leader, follower = row_of(poll, 3), row_of(poll, 2)
    assert (fetch_age_ms(poll, leader), lag_ms(poll, leader)) == (0, 0)
    assert (fetch_age_ms(poll, follower), lag_ms(poll, follower)) == (300, 700)

    without = replace(poll, voters=tuple(row for row in poll.voters if row is not leader))
    assert (fetch_age_ms(without, follower), lag_ms(without, follower)) == (None, None)


def test_a_replica_whose_directory_is_not_known_may_be_that_of_any_directory_of_its_node() -> None:
    known, unknown = controller_key(2), ReplicaKey(id=controller_key(2).id)
    assert same_replica(unknown, known)
    assert same_replica(known, unknown)
    assert not same_replica(controller_key(2, "new"), known)
    assert not same_replica(unknown, controller_key(3))


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
    ],
)
def test_readiness_is_evaluated_on_all_samples_and_not_on_one(samples: tuple[LagSample, ...], state: Readiness) -> None:
    assert readiness(samples, limit_ms=LIMIT_MS) is state
