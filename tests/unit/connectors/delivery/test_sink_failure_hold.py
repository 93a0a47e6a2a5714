"""The hold of a failing sink counts by the time that passes, also where the wall clock is set meanwhile."""

import pytest

from connectors.delivery.delivery_report import SinkResult
from connectors.delivery.job_alerts import HOLD_MS, SinkFailureAlerts
from connectors.wall_clock import StepDetector
from rules.alert import Alert
from rules.model.identifiers import Millis

FAILURE = SinkResult(failing="HTTP 503", pending=1)
START_MS = 1_700_000_000_000


class FailingSink:
    """A sink that fails, second by second; `step_ms`: by how much the wall clock is ahead of the time that passed."""

    def __init__(self) -> None:
        self.passed_ms, self.step_ms = 0, 0
        self.alerts = SinkFailureAlerts(())
        self.steps = StepDetector(lambda: Millis(self.passed_ms))

    def fails_for(self, ms: int) -> list[Alert]:
        fired: list[Alert] = []
        for _ in range(ms // 1_000):
            self.passed_ms += 1_000
            now_ms = Millis(START_MS + self.passed_ms + self.step_ms)
            self.alerts.move_by_step(self.steps.step_ms(now_ms))
            fired += self.alerts.due({"slack": FAILURE}, now_ms)
        return fired


@pytest.mark.parametrize("step_ms", [0, 3_600_000, -3_600_000])
def test_a_clock_that_was_set_makes_the_hold_neither_shorter_nor_longer(step_ms: int) -> None:
    sink = FailingSink()
    assert sink.fails_for(HOLD_MS // 2) == []
    sink.step_ms = step_ms
    assert sink.fails_for(HOLD_MS // 2) == []

    (alert,) = sink.fails_for(10_000)

    assert alert.subject == "sink slack"
    assert alert.started_at_ms == START_MS + 1_000 + step_ms


def test_the_hold_begins_again_when_the_sink_has_worked_in_between() -> None:
    sink = FailingSink()
    assert sink.fails_for(HOLD_MS - 1_000) == []
    assert sink.alerts.due({"slack": None}, Millis(START_MS + sink.passed_ms)) == []
    assert sink.fails_for(HOLD_MS) == []
    assert len(sink.fails_for(1_000)) == 1
