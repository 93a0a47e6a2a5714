"""The readiness of an observer or a lagging voter, evaluated on a window of samples."""

import pytest

from rules.analysis.replica_lag import Readiness, readiness
from rules.model.identifiers import Millis
from rules.model.quorum import LagSample

pytestmark = pytest.mark.kip("A069", "D123", "D140")

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


@pytest.mark.kip("A069", "D140")
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
