"""How a replica follows the leader, by the leader's own clock: a poll has the times of both."""

from collections.abc import Iterable
from enum import StrEnum

from rules.model.ages import FETCH_WAIT_MS, POLL_LATENCY_MS
from rules.model.identifiers import Millis, ReplicaKey
from rules.model.membership import majority
from rules.model.quorum import Quorum
from rules.model.replica import LagSample, Poll, Replica

NEAR_RECORDS = 100
"""A replica that is so many records behind the leader at most is near. An idle leader appends two a second."""


class Following(StrEnum):
    """How a replica follows; only voters in sync acknowledge records for the majority in time."""

    IN_SYNC = "in sync"
    LAGGING = "lagging"
    """It fetches, and has not caught up with the leader within `Ages.fetch_ms`."""
    NOT_FETCHING = "not fetching"
    UNKNOWN = "unknown"
    """There is no poll in which the leader has a row."""

    @property
    def fetches(self) -> bool:
        """Whether the replica fetches, however far behind."""
        return self in (Following.IN_SYNC, Following.LAGGING)


def following(quorum: Quorum, poll: Poll | None, key: ReplicaKey) -> Following:
    """Returns how this replica, with this directory id, followed at the time of the poll."""
    if poll is None or poll.leader is None:
        return Following.UNKNOWN
    limit, age = quorum.ages.fetch_ms, since_last_fetch_ms(quorum, poll, key)
    if age is None or age > limit:
        row = replica_row(poll, key)
        if row is None or not fetches_slowly(quorum, poll, row):
            return Following.NOT_FETCHING
    lag = since_caught_up_ms(quorum, poll, key)
    return Following.LAGGING if lag is None or lag > limit else Following.IN_SYNC


def same_replica(key: ReplicaKey, other: ReplicaKey) -> bool:
    """Returns whether both keys may name one replica: equal ids, and equal directory ids where both are known."""
    known = key.directory_id is not None and other.directory_id is not None
    return key.id == other.id and (key.directory_id == other.directory_id or not known)


def replica_row(poll: Poll, key: ReplicaKey) -> Replica | None:
    """Returns the replica's row in DescribeQuorum, as voter or observer."""
    return next((row for row in poll.rows_by_id.get(key.id, ()) if same_replica(row.key, key)), None)


def fetching_replacement(quorum: Quorum, poll: Poll | None, key: ReplicaKey) -> ReplicaKey | None:
    """Returns another directory of the replica's node id that fetches without a vote; None if there is none."""
    rows = poll.observers_by_id.get(key.id, ()) if poll else ()
    others = (row.key for row in rows if not same_replica(row.key, key))
    return next((other for other in others if following(quorum, poll, other).fetches), None)


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
    return _by_earlier_polls(poll, ((sample, sample.fetch_age_ms) for sample in lag_samples(quorum, key)))


def fetched_after_ms(poll: Poll, age_ms: int) -> Millis:
    """Returns after when a replica sent its last fetch, by the monitor's clock, by the age of that fetch in the poll.

    The leader took the age before its answer arrived, and on a busy host that is long before.
    """
    return Millis(poll.observed_at_ms - max(POLL_LATENCY_MS, poll.answer_ms or 0) - age_ms - FETCH_WAIT_MS)


def since_caught_up_ms(quorum: Quorum, poll: Poll, key: ReplicaKey) -> Millis | None:
    """Returns how long before the poll this replica had last caught up; None if that is not known.

    A new leader does not know it before the replica's second fetch, so the history bridges elections.
    """
    row = replica_row(poll, key)
    if row is not None and (row.last_caught_up_ms is not None or poll.leader in (None, row)):
        return lag_ms(poll, row)
    return _by_earlier_polls(poll, ((sample, sample.lag_ms) for sample in lag_samples(quorum, key)))


def _by_earlier_polls(poll: Poll, samples: Iterable[tuple[LagSample, Millis | None]]) -> Millis | None:
    """Returns the newest known age in these samples, oldest first, as an age at the time of the poll."""
    known = [(sample.observed_at_ms, age) for sample, age in samples if age is not None]
    return Millis(poll.observed_at_ms - known[-1][0] + known[-1][1]) if known else None


def records_behind(poll: Poll, row: Replica | None) -> int | None:
    """Returns how many records the replica's log ends before the leader's; None if one of both ends is unknown."""
    end, leader = row.log_end_offset if row else None, poll.leader.log_end_offset if poll.leader else None
    return None if end is None or leader is None else max(0, leader - end)


def fetches_slowly(quorum: Quorum, poll: Poll, row: Replica) -> bool:
    """Returns whether the replica fetches with pauses: by its last fetch, a minute ago at most, it was lagging already.

    A replica that fails had caught up when it last fetched. One whose fetches take longer than Kafka's request timeout
    of two seconds connects again, repeats them every few seconds, and gets no further.
    """
    age, ages = fetch_age_ms(poll, row), quorum.ages
    lag = lag_ms(poll, row) if row.last_caught_up_ms is not None else _led_for_ms(quorum, poll)
    return age is not None and age <= ages.repeated_ms and (lag is None or lag - age > ages.fetch_ms)


def _led_for_ms(quorum: Quorum, poll: Poll) -> Millis | None:
    """Returns for how long the leader has led, by its clock: a replica without a time has not caught up for as long."""
    now_ms = poll.leader.last_fetch_ms if poll.leader else None
    elections = (one for one in reversed(quorum.history.elections) if one.leader_epoch == poll.leader_epoch)
    elected = next(elections, None)
    return None if now_ms is None or elected is None else Millis(max(0, now_ms - elected.timestamp_ms))


def majority_lag_ms(lags_ms: Iterable[int | None]) -> int | None:
    """Returns how long the voter that completes the majority lags, of the lags of all voters: 0 for every record.

    None while the lag of a voter in that majority is unknown.
    """
    voters = [*lags_ms]
    known, needed = sorted(lag for lag in voters if lag is not None), majority(len(voters))
    return known[needed - 1] if voters and len(known) >= needed else None


def lag_samples(quorum: Quorum, key: ReplicaKey) -> tuple[LagSample, ...]:
    """Returns what is kept of a replica's lag, newest last."""
    history = quorum.histories.get(key)
    return history.samples if history else ()
