"""Simulations whose rows are recorded."""

from collections.abc import Sequence

from rules.evaluate import RULES
from streaming.replay.decoded_row import DecodedRow
from tests.simulation.incident_simulation import Incident, IncidentSimulation
from tests.simulation.simulated_monitor import OVERRIDES
from tests.simulation.simulation import Simulation

NO_HOLD = {**OVERRIDES, **{f"{rule}.hold": 0.0 for rule in RULES}}
"""A condition that begins makes its alert at once: a row that waits would delay it."""


class RecordedSimulation(Simulation):
    """A simulation with faults whose observations are kept. Its own monitor gets none: test_simulation checks that."""

    def __init__(self, seed: int, *, polls_only: bool) -> None:
        self.rows: list[DecodedRow] = []
        super().__init__(seed, polls_only=polls_only)

    def deliver(self, rows: Sequence[DecodedRow]) -> None:
        self.rows += rows

    def check_calm(self) -> None:
        pass


class RecordedIncident(IncidentSimulation):
    """An incident whose observations are kept. Its own monitor gets none: test_incidents checks its alerts."""

    def __init__(self, seed: int, incident: Incident) -> None:
        self.rows: list[DecodedRow] = []
        super().__init__(seed, incident)

    def deliver(self, rows: Sequence[DecodedRow]) -> None:
        self.rows += rows
