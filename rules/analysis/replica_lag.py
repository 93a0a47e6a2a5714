"""How far each replica is, by the leader's own clock: who fetches, who has caught up, who lags."""

from enum import StrEnum

from rules.analysis.freshness import SILENT
from rules.finding import Thresholds
from rules.model.identifiers import Millis, ReplicaKey
from rules.model.poll import LagSample, Poll, Replica
from rules.model.quorum import Quorum


class Liveness(StrEnum):
    """Whether a replica takes part, as the leader sees it."""

    FETCHING = "fetching"
    SILENT = "silent"
    UNKNOWN = "unknown"
    """Nobody who could know has told us."""


def same(key: ReplicaKey, other: ReplicaKey) -> bool:
    """Whether both may name one replica: ids are equal, and directory ids where both are known."""
    known = key.directory_id is not None and other.directory_id is not None
    return key.id == other.id and (key.directory_id == other.directory_id or not known)


def row_of(poll: Poll, key: ReplicaKey) -> Replica | None:
    """The replica's row in DescribeQuorum, as voter or observer."""
    return next((row for row in (*poll.voters, *poll.observers) if same(row.key, key)), None)


def fetch_age_ms(poll: Poll, row: Replica) -> Millis | None:
    """How long before the poll this replica last fetched, by the leader's clock; 0 for the leader itself."""
    leader = poll.leader
    if leader is None or leader is row:
        return None if leader is None else Millis(0)
    if leader.last_fetch_ms is None or row.last_fetch_ms is None:
        return None
    return Millis(max(0, leader.last_fetch_ms - row.last_fetch_ms))


def lag_ms(poll: Poll, row: Replica) -> Millis | None:
    """How long before the poll this replica had last caught up, by the leader's clock; 0 for the leader."""
    leader = poll.leader
    if leader is None or leader is row:
        return None if leader is None else Millis(0)
    if leader.last_caught_up_ms is None or row.last_caught_up_ms is None:
        return None
    return Millis(max(0, leader.last_caught_up_ms - row.last_caught_up_ms))


def silence_ms(quorum: Quorum, poll: Poll, key: ReplicaKey) -> Millis | None:
    """How long before the poll this replica last fetched; None when no poll we remember ever showed it fetching.

    A new leader forgets when others fetched (-1 in its answer), so the history bridges elections.
    """
    row = row_of(poll, key)
    age = fetch_age_ms(poll, row) if row else None
    if age is not None:
        return age
    history = quorum.histories.get(key)
    for sample in reversed(history.samples if history else ()):
        if sample.fetch_age_ms is not None:
            return Millis(poll.observed_at_ms - sample.observed_at_ms + sample.fetch_age_ms)
    return None


def liveness(quorum: Quorum, poll: Poll | None, key: ReplicaKey, thresholds: Thresholds) -> Liveness:
    """Whether this replica, with this directory, fetched at the time of the poll."""
    if poll is None or poll.leader is None:
        return Liveness.UNKNOWN
    silence = silence_ms(quorum, poll, key)
    if silence is None or silence > thresholds.ms(SILENT.name):
        return Liveness.SILENT
    return Liveness.FETCHING


class Readiness(StrEnum):
    """How an observer keeps up, judged on the window of samples and not on one (Burrow's way)."""

    READY = "ready"
    """It had caught up within the limit in every recent sample."""
    CATCHING_UP = "catching up"
    """Behind, and the distance shrinks."""
    LAGGING = "lagging"
    """Behind, and the distance does not shrink."""
    UNKNOWN = "unknown"
    """Too few samples to say."""


def readiness(samples: tuple[LagSample, ...], *, limit_ms: Millis, window: int) -> Readiness:
    """Judge the newest `window` samples that say anything: a new leader has not heard of everybody at once.

    Args:
        samples: newest last.
        limit_ms: how far behind in time still counts as caught up.
        window: how many samples are asked for; with fewer than three the answer is unknown.
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
