"""ClockSteps: a clock that was set is one alert of the job, and its end."""

import pytest

from rules.alert import AlertState
from rules.model.identifiers import Millis
from streaming.job.own_alerts import REPORTED_MS, STEP_LASTS_MS, ClockSteps

HOUR_MS = 3_600_000


class Clocks:
    def __init__(self) -> None:
        self.steady_s, self.wall_ms = 100.0, 1_790_000_000_000

    def pass_s(self, seconds: float, *, step_ms: int = 0) -> None:
        self.steady_s += seconds
        self.wall_ms += round(1000 * seconds) + step_ms

    def steps(self, *firing: object) -> ClockSteps:
        return ClockSteps(firing, steady=lambda: Millis(round(1000 * self.steady_s)), wall=lambda: Millis(self.wall_ms))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("step_ms", "what"),
    [(-HOUR_MS, "back by 60 min"), (HOUR_MS, "forward by 60 min, or the host was suspended")],
)
def test_step_fires_once_and_ends(step_ms: int, what: str) -> None:
    clocks = Clocks()
    steps = clocks.steps()
    clocks.pass_s(5)
    assert steps.due() == []
    clocks.pass_s(5, step_ms=step_ms)
    (fired,) = steps.due()
    assert (fired.cluster, fired.rule, fired.subject) == ("kraftwatch", "monitor-blind", "clock")
    assert f"The clock of kraftwatch's host was set {what}." in fired.summary
    assert fired.started_at_ms == clocks.wall_ms, "it is not in the future"
    clocks.pass_s(STEP_LASTS_MS / 1000 - 1)
    assert steps.due() == []

    steps = clocks.steps(fired)
    assert steps.due() == []
    clocks.pass_s(1)
    (resolved,) = steps.due()
    assert resolved.state is AlertState.RESOLVED
    assert resolved.fingerprint == fired.fingerprint
    clocks.pass_s(STEP_LASTS_MS / 1000)
    assert steps.due() == []


def test_the_alert_names_the_times_before_and_after_the_step() -> None:
    clocks = Clocks()
    steps = clocks.steps()
    clocks.pass_s(5, step_ms=-HOUR_MS)
    (fired,) = steps.due()
    assert fired.evidence == {"clock_before_at_ms": clocks.wall_ms + HOUR_MS, "clock_now_at_ms": clocks.wall_ms}


def test_a_second_step_makes_the_alert_last_longer() -> None:
    clocks = Clocks()
    steps = clocks.steps()
    clocks.pass_s(5, step_ms=HOUR_MS)
    (first,) = steps.due()
    clocks.pass_s(STEP_LASTS_MS / 1000 - 1, step_ms=HOUR_MS)
    (second,) = steps.due()
    assert second.state is AlertState.FIRING
    steps = clocks.steps(second)
    clocks.pass_s(STEP_LASTS_MS / 1000 - 1)
    assert steps.due() == []
    clocks.pass_s(1)
    (resolved,) = steps.due()
    assert resolved.state is AlertState.RESOLVED
    starts = {each.started_at_ms for each in (first, second, resolved)}
    assert len(starts) == 1, "with another start it would be another alert, and the first would never end"


def test_a_clock_that_is_set_right_again_keeps_the_transitions_in_order() -> None:
    clocks = Clocks()
    steps = clocks.steps()
    clocks.pass_s(5, step_ms=HOUR_MS)
    (ahead,) = steps.due()
    clocks.pass_s(60, step_ms=-HOUR_MS)
    (right,) = steps.due()
    assert "was set back by 60 min" in right.summary
    clocks.pass_s(300)
    steps = clocks.steps(right)
    clocks.pass_s(STEP_LASTS_MS / 1000 - 301)
    assert steps.due() == [], "the restart begins the ten minutes neither again nor earlier"
    clocks.pass_s(1)
    (resolved,) = steps.due()
    assert ahead.started_at_ms <= ahead.observed_at_ms < right.observed_at_ms <= resolved.observed_at_ms


def test_small_corrections_are_not_reported() -> None:
    clocks = Clocks()
    steps = clocks.steps()
    for step_ms in (REPORTED_MS - 1, 1 - REPORTED_MS, 5):
        clocks.pass_s(5, step_ms=step_ms)
        assert steps.due() == []
