"""How an observer or a slow voter keeps up, on a window of samples."""

import pytest

from rules.analysis.replica_lag import Readiness, readiness
from rules.model.identifiers import Millis
from rules.model.poll import LagSample

LIMIT_MS = Millis(2_000)


def sample(lag: int | None, lag_ms: int | None) -> LagSample:
    """So many records, and so long, behind the leader."""
    behind = None if lag_ms is None else Millis(lag_ms)
    return LagSample(observed_at_ms=Millis(0), lag=lag, lag_ms=behind, fetch_age_ms=None)


LEVEL, FAR, NEARER, UNHEARD = sample(0, 0), sample(90, 9_000), sample(80, 8_000), sample(None, None)
AT_THE_LIMIT, BEYOND_IT = sample(1, 2_000), sample(1, 2_001)
TIME_ALONE, LONG_ALONE = sample(None, 500), sample(None, 9_000)


@pytest.mark.parametrize(
    ("samples", "state"),
    [
        ((), Readiness.UNKNOWN),
        ((LEVEL, LEVEL), Readiness.UNKNOWN),
        ((LEVEL, LEVEL, LEVEL), Readiness.READY),
        ((AT_THE_LIMIT, LEVEL, LEVEL), Readiness.READY),
        # Level again is not enough: it must have been in the whole window.
        ((BEYOND_IT, BEYOND_IT, LEVEL), Readiness.CATCHING_UP),
        ((FAR, FAR, NEARER), Readiness.CATCHING_UP),
        ((FAR, FAR, FAR), Readiness.LAGGING),
        ((NEARER, FAR, FAR), Readiness.LAGGING),
        # A new leader has not heard of everybody: what says nothing is no sample, and does not make one too few.
        ((LEVEL, LEVEL, UNHEARD), Readiness.UNKNOWN),
        ((LEVEL, LEVEL, LEVEL, UNHEARD), Readiness.READY),
        ((FAR, FAR, NEARER, UNHEARD, UNHEARD), Readiness.CATCHING_UP),
        # Its log's end is not told: by time it is judged, and no distance is known to shrink.
        ((TIME_ALONE, TIME_ALONE, TIME_ALONE), Readiness.READY),
        ((LONG_ALONE, LONG_ALONE, LONG_ALONE), Readiness.LAGGING),
        # Only the newest of the window count: four here.
        ((FAR, LEVEL, LEVEL, LEVEL, LEVEL), Readiness.READY),
        ((NEARER, FAR, FAR, FAR, FAR), Readiness.LAGGING),
        ((FAR, NEARER, NEARER, NEARER, NEARER), Readiness.LAGGING),
    ],
)
def test_it_is_judged_on_the_window_and_not_on_one_sample(samples: tuple[LagSample, ...], state: Readiness) -> None:
    assert readiness(samples, limit_ms=LIMIT_MS, window=4) is state


def test_who_asks_for_fewer_samples_is_content_with_fewer() -> None:
    assert readiness((FAR, LEVEL), limit_ms=LIMIT_MS, window=1) is Readiness.READY
