"""A simulation whose rows are recorded."""

from collections.abc import Sequence

from streaming.replay.decoded_row import DecodedRow
from tests.simulation.simulation import Simulation


class RecordedSimulation(Simulation):
    """A simulation with faults whose observations are kept. Its own monitor gets none: test_simulation checks that."""

    def __init__(self, seed: int, *, polls_only: bool) -> None:
        self.rows: list[DecodedRow] = []
        super().__init__(seed, polls_only=polls_only)

    def deliver(self, rows: Sequence[DecodedRow]) -> None:
        self.rows += rows

    def check_calm(self) -> None:
        pass
