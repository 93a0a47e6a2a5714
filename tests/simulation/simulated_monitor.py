"""The monitor of the simulated cluster, and one that gets the observations as Spark delivers them after failures.

Holds and windows of minutes and hours are shorter, so that alerts resolve. The batches of a RedeliveredMonitor have any
size and order, contain some observations again, and after a crash all since the last checkpoint. The result must equal
that of the monitor that got each observation once and in order.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random

from rules.alert import Alert
from rules.evaluate import RULES, thresholds_for
from rules.model.monitoring import Access
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.decoded_row import DecodedRow

KEEP_FIRING_S = 90.0
"""How long rules about past events keep firing."""
CHURN_WINDOW_S = 120.0
DUPLICATE_WINDOW_S = 90.0
FLAPPING_WINDOW_S = 120.0
RESTART_PAUSE_S = 60.0
RESTART_WINDOW_S = 120.0
SHUTTING_DOWN_FOR_S = 60.0
SNAPSHOT_AGE_S = 100.0
_HOLD_S = 60.0
KEEP_FIRING_RULES = {rule.id for rule in RULES.values() if "keep_firing_for" in {one.name for one in rule.thresholds}}
OVERRIDES: Mapping[str, float] = {
    **{f"{rule.id}.hold": _HOLD_S for rule in RULES.values() if rule.hold.default > _HOLD_S},
    **{f"{rule}.keep_firing_for": KEEP_FIRING_S for rule in KEEP_FIRING_RULES},
    "broker-flapping.window": FLAPPING_WINDOW_S,
    "data-contract-broken.stands": KEEP_FIRING_S,
    "duplicate-node-id.window": DUPLICATE_WINDOW_S,
    "epoch-churn.hold": 20.0,
    "epoch-churn.window": CHURN_WINDOW_S,
    # What the polls show of a whole window is tested by scripts.
    "failure-tolerance.share": 101.0,
    # Incidents follow each other within minutes.
    "node-restarting.slow_starts": 33.0,
    "node-restarting.window": RESTART_WINDOW_S,
    "observer-could-be-voter.removed_for": 60.0,
    "operation-unfinished.shutting_down_for": SHUTTING_DOWN_FOR_S,
    # Longer than the simulation goes on after an incident that leaves an even number of voters.
    "quorum-shape.hold": 150.0,
    "restarts-without-end.pause": RESTART_PAUSE_S,
    "snapshot-stale.age": SNAPSHOT_AGE_S,
    "voter-change-stuck.hold": 4.0,
    # The simulation replaces the disks of one node again and again.
    "voter-change-stuck.removals": 1_000.0,
}
"""`RULE.NAME` -> value, as the configuration takes them."""
THRESHOLDS = thresholds_for(OVERRIDES)
ACCESS = Access(protocol="SASL_PLAINTEXT")
"""Controllers and the monitor log in."""
KEPT = 60
"""The number of newest observations that may be delivered again."""


def simulated_monitor(
    bootstrap: tuple[str, ...],
    blob: bytes | None = None,
    *,
    overrides: Mapping[str, float] = OVERRIDES,
    access: Access = ACCESS,
    kind: type[ClusterMonitor] = ClusterMonitor,
) -> ClusterMonitor:
    """Returns the monitor of the simulated cluster, new or restored."""
    thresholds = thresholds_for(overrides)
    return kind.restored(
        blob, ClusterSettings(name="simulated", bootstrap=bootstrap, access=access, thresholds=thresholds)
    )


class RedeliveredMonitor:
    """`make` returns the monitor of a blob, or a new one."""

    def __init__(self, random: Random, make: Callable[[bytes | None], ClusterMonitor]) -> None:
        self.random = random
        self.make = make
        self.monitor = make(None)
        self.blob: bytes | None = None
        self.delivered: list[DecodedRow] = []
        self.since: list[DecodedRow] = []
        """Observations since the checkpoint."""
        self.alerts: list[Alert] = []
        """Alerts since the checkpoint."""
        self.batch: list[DecodedRow] = []
        self.expected: list[Alert] = []
        self.size = 1

    def take(self, row: DecodedRow, alerts: Sequence[Alert]) -> str | None:
        """Takes an observation and the first monitor's alerts for it; returns the difference in words, or None."""
        self.batch.append(row)
        self.expected += alerts
        return self._deliver() if len(self.batch) >= self.size else None

    def _deliver(self) -> str | None:
        again = self.random.sample(self.delivered, min(len(self.delivered), self.random.randint(0, 5)))
        rows = [*self.batch, *again]
        self.random.shuffle(rows)
        alerts = self.monitor.apply(_in_order(rows)).alerts
        if list(alerts) != self.expected:
            return f"observations in batches gave {alerts}, one by one {self.expected}"
        self.since += self.batch
        self.alerts += alerts
        self.delivered = [*self.delivered, *self.batch][-KEPT:]
        self.batch, self.expected, self.size = [], [], self.random.randint(1, 12)
        dice = self.random.random()
        if dice < 0.02:
            return self._crash()
        if dice < 0.1:
            self.blob, self.since, self.alerts = self.monitor.to_bytes(), [], []
        return None

    def _crash(self) -> str | None:
        """Restarts from the checkpoint: everything since then is delivered again and gives the same alerts."""
        self.monitor = self.make(self.blob)
        alerts = self.monitor.apply(_in_order(self.since)).alerts
        return None if list(alerts) == self.alerts else f"redelivered it gives {alerts}, at first it gave {self.alerts}"


def _in_order(rows: Sequence[DecodedRow]) -> list[DecodedRow]:
    """Sorts rows as the processor does."""
    return sorted(rows, key=lambda row: row.sequence)
