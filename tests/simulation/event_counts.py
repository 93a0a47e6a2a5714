"""EventCounts: the number of events in simulated quorums."""

from collections import Counter
from dataclasses import dataclass, field

from tests.simulation.simulation import Simulation


def summary_line(simulation: Simulation) -> str:
    """Returns a summary of one simulation in one line."""
    ground_truth, checker = simulation.ground_truth, simulation.checker
    return (
        f"seed {simulation.seed}: {len(simulation.nodes)} controllers{' (static at first)' * simulation.static}, "
        f"{len(ground_truth.leaders)} elections, {len(ground_truth.committed)} records, "
        f"{simulation.fault_injection.fault_count} faults, {simulation.happened.total()} incidents, "
        f"{simulation.calm_phases} recoveries, {checker.rows} observations, {len(checker.alerts)} alerts"
    )


@dataclass(slots=True)
class EventCounts:
    """Sums over simulations."""

    quorum: Counter[str] = field(default_factory=Counter)
    """Events in the log."""
    fault_injection: Counter[str] = field(default_factory=Counter)
    incidents: Counter[str] = field(default_factory=Counter)
    monitor: Counter[str] = field(default_factory=Counter)
    alerts: Counter[str] = field(default_factory=Counter)

    def add(self, simulation: Simulation) -> None:
        """Adds one simulation."""
        ground_truth, checker, gatherer = simulation.ground_truth, simulation.checker, simulation.gatherer
        self.quorum += ground_truth.oracle.counts
        self.quorum["records committed"] += len(ground_truth.committed)
        self.quorum["logs truncated"] += ground_truth.truncations
        self.quorum["complete recoveries"] += simulation.calm_phases
        self.quorum["recorded endpoints restored in leaderless quorums"] += simulation.activity.restored_endpoints
        self.fault_injection += simulation.fault_injection.counts
        self.incidents += simulation.happened
        self.monitor["observations"] += checker.rows
        self.monitor["delayed responses"] += gatherer.late_count
        self.monitor["gaps in the observations"] += gatherer.gaps
        self.monitor["snapshots read"] += gatherer.snapshots
        self.monitor["restarts from a checkpoint"] += checker.restarts
        self.monitor["redelivered observations"] += checker.redelivery.duplicates
        self.monitor["crashes before a checkpoint"] += checker.redelivery.crashes
        self.alerts += checker.counts

    def lines(self) -> list[str]:
        """Returns the counts as text."""
        return [
            "in the quorum's log:",
            *_counted(self.quorum),
            "injected faults:",
            *_counted(self.fault_injection),
            "incidents:",
            *_counted(self.incidents),
            "the monitor:",
            *_counted(self.monitor),
            "alerts:",
            *_counted(self.alerts),
        ]


def _counted(counts: Counter[str]) -> list[str]:
    return [
        f"  {name.replace('_', ' '):<42} {apply_effective:>8}"
        for name, apply_effective in sorted(counts.items())
        if apply_effective
    ]
