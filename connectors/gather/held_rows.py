"""HeldRows: quiet rows that wait for their cluster's turn, so that a cluster has many rows in one micro-batch.

Spark's cost of a cluster in a micro-batch hardly depends on the number of its rows. Nothing but the publication waits:
the time of a row is the time of its observation, and the order of a cluster's rows stays.
"""

from collections.abc import Iterator

from connectors.observation import Observation


class HeldRows:
    """The waiting rows of all clusters. Each cluster has every n-th turn, in the order of their first rows."""

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._turn = 0
        self._turn_of: dict[str, int] = {}
        self._rows: dict[str, list[Observation]] = {}

    def hold(self, row: Observation) -> None:
        """Adds a row behind its cluster's waiting rows."""
        self._rows.setdefault(row.cluster, []).append(row)

    def take(self, cluster: str) -> list[Observation]:
        """Returns the waiting rows of a cluster, which then wait no more."""
        return self._rows.pop(cluster, [])

    def take_next(self) -> Iterator[list[Observation]]:
        """Yields the waiting rows of each cluster whose turn is now; the next call is the next turn."""
        self._turn = (self._turn + 1) % self._turns
        for cluster in list(self._rows):
            if self._turn_of.setdefault(cluster, len(self._turn_of) % self._turns) == self._turn:
                yield self._rows.pop(cluster)

    def take_all(self) -> Iterator[list[Observation]]:
        """Yields the waiting rows of each cluster."""
        rows, self._rows = self._rows, {}
        yield from rows.values()
