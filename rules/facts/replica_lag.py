"""How far each replica is by the leader's clock: whether it fetches, whether it has caught up, how it lags."""

from enum import StrEnum
from typing import Final

from rules.facts.following import since_last_fetch_ms
from rules.formatting import utc_text
from rules.model.identifiers import Millis, ReplicaKey
from rules.model.quorum import Quorum
from rules.model.replica import LagSample, Poll

CATCHING_UP_MS: Final = Millis(3_600_000)
"""A replica whose lag shrinks is not reported before it has lagged so long: a snapshot of a large cluster is copied
in minutes."""


def last_fetch_text(quorum: Quorum, poll: Poll, key: ReplicaKey, never: str = "never") -> str:
    """Returns when this replica last fetched, as text; `never` if no kept poll has a fetch of it."""
    age = since_last_fetch_ms(quorum, poll, key)
    return never if age is None else utc_text(poll.observed_at_ms - age)


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


def readiness(samples: tuple[LagSample, ...], *, limit_ms: Millis) -> Readiness:
    """Evaluates the samples that hold a lag: a new leader does not know every replica's lag at once.

    With fewer than three samples the result is unknown. `limit_ms`: the largest time lag that counts as caught up.
    """
    recent = [sample for sample in samples if sample.lag is not None or sample.lag_ms is not None]
    if len(recent) < 3:
        return Readiness.UNKNOWN
    if all(sample.lag_ms is not None and sample.lag_ms <= limit_ms for sample in recent):
        return Readiness.READY
    lags = [sample.lag for sample in recent if sample.lag is not None]
    if lags and lags[-1] < lags[0]:
        return Readiness.CATCHING_UP
    return Readiness.LAGGING
