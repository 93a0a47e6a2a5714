"""How far each replica is by the leader's clock: whether it fetches, whether it has caught up, how it lags."""

from collections.abc import Iterable
from enum import StrEnum

from rules.finding import Threshold
from rules.formatting import utc_text
from rules.model.identifiers import Millis, ReplicaKey
from rules.model.quorum import LagSample, Poll, Quorum, Replica

WINDOW = Threshold(
    name="window",
    default=30.0,
    unit="samples",
    meaning="how many of the newest samples of its lag are evaluated. One is kept every 5 s for a minute: the default "
    "evaluates that minute, a value below 12 less",
)
CATCHING_UP_FOR = Threshold(
    name="catching_up_for",
    default=3_600.0,
    meaning="a replica whose lag shrinks is not reported before it has lagged this long: a snapshot of a large cluster "
    "is copied in minutes",
)
NEAR_RECORDS = 100
"""A replica that is so many records behind the leader at most is near. An idle leader appends two a second."""
SLOW_FETCH_MS = Millis(60_000)
"""How long after its last fetch a replica that was lagging then still counts as fetching."""


class Liveness(StrEnum):
    """Whether a replica fetches, as the leader reports it."""

    FETCHING = "fetching"
    NOT_FETCHING = "silent"
    UNKNOWN = "unknown"
    """There is no poll in which the leader has a row."""


def same_replica(key: ReplicaKey, other: ReplicaKey) -> bool:
    """Returns whether both keys may name one replica: equal ids, and equal directory ids where both are known."""
    known = key.directory_id is not None and other.directory_id is not None
    return key.id == other.id and (key.directory_id == other.directory_id or not known)


def replica_row(poll: Poll, key: ReplicaKey) -> Replica | None:
    """Returns the replica's row in DescribeQuorum, as voter or observer."""
    return next((row for row in poll.rows_by_id.get(key.id, ()) if same_replica(row.key, key)), None)


def fetch_age_ms(poll: Poll, row: Replica) -> Millis | None:
    """Returns how long before the poll this replica last fetched, by the leader's clock; 0 for the leader itself."""
    leader = poll.leader
    if leader is None or leader is row:
        return None if leader is None else Millis(0)
    return age_ms(leader.last_fetch_ms, row.last_fetch_ms, leader, row)


def lag_ms(poll: Poll, row: Replica) -> Millis | None:
    """Returns how long before the poll this replica had last caught up, by the leader's clock; 0 for the leader."""
    leader = poll.leader
    if leader is None or leader is row:
        return None if leader is None else Millis(0)
    return age_ms(leader.last_caught_up_ms, row.last_caught_up_ms, leader, row)


def age_ms(leader_at_ms: Millis | None, at_ms: Millis | None, leader: Replica, row: Replica) -> Millis | None:
    """Returns how old this time of a row is by the leader's clock, which its own row has; None if it is not known.

    After the leader's clock was set back, Kafka keeps the later times until the clock shows them again, also those of a
    replica that fails meanwhile. Then only the end of a replica's log shows whether it still follows.
    """
    if leader_at_ms is None or at_ms is None:
        return None
    if at_ms > leader_at_ms:
        return Millis(0) if _is_near(leader, row) else None
    return Millis(leader_at_ms - at_ms)


def _is_near(leader: Replica, row: Replica) -> bool:
    last, end = leader.log_end_offset, row.log_end_offset
    return last is not None and end is not None and last - end <= NEAR_RECORDS


def since_last_fetch_ms(quorum: Quorum, poll: Poll, key: ReplicaKey) -> Millis | None:
    """Returns how long before the poll this replica last fetched; None if no kept poll has a fetch of it.

    A new leader does not know when others fetched (-1 in its answer), so the history bridges elections.
    """
    row = replica_row(poll, key)
    age = fetch_age_ms(poll, row) if row else None
    if age is not None:
        return age
    return _by_earlier_polls(poll, ((one, one.fetch_age_ms) for one in lag_samples(quorum, key)))


def since_caught_up_ms(quorum: Quorum, poll: Poll, key: ReplicaKey) -> Millis | None:
    """Returns how long before the poll this replica had last caught up; None if that is not known.

    A new leader does not know it before the replica's second fetch, so the history bridges elections.
    """
    row = replica_row(poll, key)
    if row is not None and (row.last_caught_up_ms is not None or poll.leader in (None, row)):
        return lag_ms(poll, row)
    return _by_earlier_polls(poll, ((one, one.lag_ms) for one in lag_samples(quorum, key)))


def _by_earlier_polls(poll: Poll, samples: Iterable[tuple[LagSample, Millis | None]]) -> Millis | None:
    """Returns the newest known age in these samples, oldest first, as an age at the time of the poll."""
    known = [(one.observed_at_ms, age) for one, age in samples if age is not None]
    return Millis(poll.observed_at_ms - known[-1][0] + known[-1][1]) if known else None


def last_fetch_text(quorum: Quorum, poll: Poll, key: ReplicaKey, never: str = "never") -> str:
    """Returns when this replica last fetched, as text; `never` if no kept poll has a fetch of it."""
    age = since_last_fetch_ms(quorum, poll, key)
    return never if age is None else utc_text(poll.observed_at_ms - age)


def liveness(quorum: Quorum, poll: Poll | None, key: ReplicaKey) -> Liveness:
    """Returns whether this replica, with this directory id, fetched at the time of the poll."""
    if poll is None or poll.leader is None:
        return Liveness.UNKNOWN
    age = since_last_fetch_ms(quorum, poll, key)
    if age is None or age > quorum.ages.fetch_ms:
        return Liveness.NOT_FETCHING
    return Liveness.FETCHING


def fetching_replacement(
    quorum: Quorum, poll: Poll | None, key: ReplicaKey) -> ReplicaKey | None:
    """Returns another directory of the replica's node id that fetches without a vote; None if there is none."""
    rows = poll.observers_by_id.get(key.id, ()) if poll else ()
    others = (row.key for row in rows if not same_replica(row.key, key))
    return next((other for other in others if liveness(quorum, poll, other) is Liveness.FETCHING), None)


def records_behind(poll: Poll, row: Replica | None) -> int | None:
    """Returns how many records the replica's log ends before the leader's; None if one of both ends is unknown."""
    end, leader = row.log_end_offset if row else None, poll.leader.log_end_offset if poll.leader else None
    return None if end is None or leader is None else max(0, leader - end)


def fetches_slowly(poll: Poll, row: Replica, limit_ms: Millis) -> bool:
    """Returns whether the replica fetches with pauses: by its last fetch, a minute ago at most, it was lagging already.

    A replica that fails had caught up when it last fetched. One whose fetches take longer than Kafka's request timeout
    of two seconds connects again, repeats them every few seconds, and gets no further.
    """
    age, lag = fetch_age_ms(poll, row), lag_ms(poll, row)
    return age is not None and age <= SLOW_FETCH_MS and (lag is None or lag - age > limit_ms)


class Readiness(StrEnum):
    """How an observer follows the leader, evaluated on a window of samples and not on one (as Burrow does)."""

    READY = "ready"
    """It had caught up within the limit in every recent sample."""
    CATCHING_UP = "catching up"
    """It lags, and the lag shrinks."""
    LAGGING = "lagging"
    """It lags, and the lag does not shrink."""
    UNKNOWN = "unknown"
    """There are too few samples."""


def lag_samples(quorum: Quorum, key: ReplicaKey) -> tuple[LagSample, ...]:
    """Returns what is kept of a replica's lag, newest last."""
    history = quorum.histories.get(key)
    return history.samples if history else ()


def readiness(samples: tuple[LagSample, ...], *, limit_ms: Millis, window: int) -> Readiness:
    """Evaluates the newest `window` samples that hold a lag: a new leader does not know every replica's lag at once.

    With fewer than three samples the result is unknown. `limit_ms`: the largest time lag that counts as caught up.
    """
    recent = [sample for sample in samples if sample.lag is not None or sample.lag_ms is not None][-window:]
    if len(recent) < min(window, 3):
        return Readiness.UNKNOWN
    if all(sample.lag_ms is not None and sample.lag_ms <= limit_ms for sample in recent):
        return Readiness.READY
    lags = [sample.lag for sample in recent if sample.lag is not None]
    if lags and lags[-1] < lags[0]:
        return Readiness.CATCHING_UP
    return Readiness.LAGGING
