"""Re-delivery: a second monitor that gets the same observations as Spark hands them on after trouble.

In batches of any size, out of order, some again that were delivered before, and after a crash all since the last
checkpoint once more. It must come to the same as the monitor that got each observation once and in order (K048).
"""

from collections.abc import Callable, Sequence
from random import Random

from rules.alert import Alert
from streaming.replay.cluster_monitor import Row, Watch

KEPT = 60
"""How many observations that were delivered may come again."""


class Redelivery:
    """`make` gives the watch that a blob holds, or a new one."""

    def __init__(self, random: Random, make: Callable[[bytes | None], Watch]) -> None:
        self.random = random
        self.make = make
        self.watch = make(None)
        self.blob: bytes | None = None
        self.delivered: list[Row] = []
        self.since: list[Row] = []
        """Delivered since the checkpoint."""
        self.told: list[Alert] = []
        """Told since the checkpoint."""
        self.batch: list[Row] = []
        self.expected: list[Alert] = []
        self.size = 1
        self.duplicates = 0
        self.crashes = 0

    def take(self, row: Row, told: Sequence[Alert]) -> str | None:
        """An observation, and what the other monitor told at it; in words what came out else than there."""
        self.batch.append(row)
        self.expected += told
        return self._deliver() if len(self.batch) >= self.size else None

    def _deliver(self) -> str | None:
        again = self.random.sample(self.delivered, min(len(self.delivered), self.random.randint(0, 5)))
        self.duplicates += len(again)
        rows = [*self.batch, *again]
        self.random.shuffle(rows)
        told = self.watch.observe(_in_order(rows))
        if list(told) != self.expected:
            return f"observations in batches told {told}, one by one {self.expected}"
        self.since += self.batch
        self.told += told
        self.delivered = [*self.delivered, *self.batch][-KEPT:]
        self.batch, self.expected, self.size = [], [], self.random.randint(1, 12)
        dice = self.random.random()
        if dice < 0.02:
            return self._crash()
        if dice < 0.1:
            self.blob, self.since, self.told = self.watch.to_bytes(), [], []
        return None

    def _crash(self) -> str | None:
        """Nothing since the checkpoint was kept: it is delivered and told again, the same."""
        self.crashes += 1
        self.watch = self.make(self.blob)
        told = self.watch.observe(_in_order(self.since))
        return None if list(told) == self.told else f"delivered again it tells {told}, at first it told {self.told}"


def _in_order(rows: Sequence[Row]) -> list[Row]:
    """As the step sorts what Spark hands it."""
    return sorted(rows, key=lambda row: row.sequence)
