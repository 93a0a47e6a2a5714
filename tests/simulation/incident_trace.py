"""An IncidentTrace: what the gatherer delivered during one incident, and what the ground truth had in each second.

The simulated quorum does not depend on its monitor. So one trace serves to check many monitors, also broken ones.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from rules.alert import AlertState
from streaming.replay.decoded_row import DecodedRow
from tests.simulation.alert_expectations import AlertExpectations
from tests.simulation.condition import Condition
from tests.simulation.redelivery import simulated_monitor
from tests.simulation.simulation import Simulation

AFTERWARDS_MS = 100_000
"""How long the trace continues after the incident: longer than an alert may take to resolve."""


class TracedSecond(NamedTuple):
    """One second: the rows that were delivered, and the conditions of the ground truth."""

    now_ms: int
    suspended_ms: int
    """For how long all hosts were suspended before this second."""
    rows: tuple[DecodedRow, ...]
    conditions: tuple[Condition, ...]
    observable: bool


class TracedSimulation(Simulation):
    """A simulation of one incident without a monitor."""

    def __init__(self, seed: int, incident: str) -> None:
        self.seconds: list[TracedSecond] = []
        self._suspended_ms = 0
        super().__init__(seed, incident=incident)

    def trace(self) -> None:
        """Runs until the incident is over, and longer than its alerts may take to resolve."""
        while not self.incidents or self.happening is not None:
            self.step()
        end_ms = self.now_ms + AFTERWARDS_MS
        while self.now_ms < end_ms:
            self.step()

    def suspend(self, ms: int) -> None:
        super().suspend(ms)
        self._suspended_ms += ms

    def observed_second(
        self, rows: Sequence[DecodedRow], conditions: tuple[Condition, ...], *, observable: bool
    ) -> None:
        second = TracedSecond(self.now_ms, self._suspended_ms, tuple(rows), conditions, observable)
        self.seconds.append(second)
        self._suspended_ms = 0


class IncidentTrace(NamedTuple):
    """The seconds of one simulation, and the addresses that its monitor is configured with."""

    bootstrap: tuple[str, ...]
    seconds: tuple[TracedSecond, ...]

    def check(self) -> Counter[str]:
        """Passes the rows to a new monitor and checks its alerts; returns the transitions by rule and state.

        Raises:
            BrokenInvariant: an alert is missing, is early, has no reason or does not resolve.
        """
        monitor = simulated_monitor(self.bootstrap)
        expectations, counts = AlertExpectations(), Counter[str]()
        for second in self.seconds:
            if second.suspended_ms:
                expectations.suspended(second.suspended_ms)
            expectations.record(second.now_ms, second.conditions, observable=second.observable)
            for row in second.rows:
                for alert in monitor.apply((row,)).alerts:
                    counts[f"{alert.rule} {alert.state}"] += 1
                    if alert.state is AlertState.FIRING:
                        expectations.check_alert(alert.rule, alert.subject)
            tracked = monitor.tracked.conditions.values()
            expectations.check_firing({(one.rule, one.subject) for one in tracked if one.notified_severity is not None})
        return counts


@lru_cache(maxsize=40)
def traced_incident(incident: str, seed: int) -> IncidentTrace:
    """Returns the trace of an incident, which is simulated once."""
    simulation = TracedSimulation(seed, incident)
    simulation.trace()
    return IncidentTrace(simulation.gatherer.bootstrap, tuple(simulation.seconds))
