"""ClockSteps: the alert that the clock of this host was set.

Holds count by the monotonic clock (`connectors.wall_clock.RowClock`), so a step fires and ends nothing. But the times
that people read were wrong before it; after a clock was set back, those of new alerts are ahead for a while.
"""

from collections.abc import Callable, Sequence

from connectors.delivery.job_alert import firing_job_alert, job_alert, resolved_alert
from connectors.wall_clock import StepDetector, steady_ms, wall_ms
from rules.alert import Alert
from rules.evaluate import BLIND
from rules.finding import Severity
from rules.formatting import ms_text, utc_text
from rules.model.identifiers import Millis

REPORTED_MS = 30_000
"""A smaller step changes no time that people act on: the time service corrects some seconds after a boot."""
LASTS_MS = 600_000
"""How long the alert fires after the newest step."""
_SUBJECT = "clock"


class ClockSteps:
    """Compares the wall clock with the monotonic clock."""

    def __init__(
        self,
        firing: Sequence[Alert],
        *,
        steady: Callable[[], Millis] = steady_ms,
        wall: Callable[[], Millis] = wall_ms,
    ) -> None:
        """`firing`: the firing alerts of the ledger; `steady` returns milliseconds that only grow."""
        self._alert = firing_job_alert(firing, _SUBJECT)
        self._steady, self._wall = steady, wall
        self._steps = StepDetector(steady)
        self._steps.step_ms(wall())
        # A restart does not begin the ten minutes again.
        fired_ms = 0 if self._alert is None else min(max(wall() - self._alert.due_at_ms, 0), LASTS_MS)
        self._stepped_at = Millis(steady() - fired_ms)

    def due(self) -> Sequence[Alert]:
        """Returns the alert when the clock was set, and its end; to be called every few seconds."""
        at, now_ms = self._steady(), self._wall()
        step_ms = self._steps.step_ms(now_ms)
        if abs(step_ms) >= REPORTED_MS:
            self._stepped_at, self._alert = at, _alert(Millis(now_ms - step_ms), now_ms, self._alert)
            return [self._alert]
        if self._alert is not None and at - self._stepped_at >= LASTS_MS:
            before, self._alert = self._alert, None
            return [resolved_alert(before, now_ms, f"The clock was not set again for {ms_text(LASTS_MS)}.")]
        return []


def _alert(expected_ms: Millis, now_ms: Millis, before: Alert | None) -> Alert:
    """A second step changes the alert that fires: one with another start would be another alert.

    After a step back, the clock shows a time before the first step: the transitions stay in order nevertheless.
    """
    step = ms_text(abs(now_ms - expected_ms))
    how = f"back by {step}" if now_ms < expected_ms else f"forward by {step}, or the host was suspended"
    return job_alert(
        BLIND,
        _SUBJECT,
        Severity.WARNING,
        summary=f"The clock of kraftwatch's host was set {how}. It showed {utc_text(expected_ms)} and shows "
        f"{utc_text(now_ms)}. Times in alerts from before are wrong by this, and new ones until it has caught up.",
        evidence={"clock_before_at_ms": expected_ms, "clock_now_at_ms": now_ms},
        remedy=(
            "# Check the time service on this host: timedatectl, or chronyc tracking",
            "# Compare the clocks of the controllers, of Alertmanager and of this host",
        ),
        started_at_ms=now_ms if before is None else before.started_at_ms,
        due_at_ms=now_ms,
        now_ms=now_ms if before is None else Millis(max(now_ms, before.observed_at_ms + 1)),
    )
