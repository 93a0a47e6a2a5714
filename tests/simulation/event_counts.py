"""A Tally: what happened in the lives of simulated quorums, and how often."""

from collections import Counter
from dataclasses import dataclass, field

from tests.simulation.simulation import Simulation


def told(simulation: Simulation) -> str:
    """One life in a line."""
    truth, judge = simulation.truth, simulation.judge
    return (
        f"seed {simulation.seed}: {len(simulation.nodes)} controllers{' at first static' * simulation.static}, "
        f"{len(truth.leaders)} elections, {len(truth.committed)} records, {simulation.chaos.deeds} deeds, "
        f"{simulation.calms} calms, {judge.rows} observations, {len(judge.alerts)} alerts"
    )


@dataclass(slots=True)
class Tally:
    """Sums over lives."""

    quorum: Counter[str] = field(default_factory=Counter)
    """What its log came to."""
    chaos: Counter[str] = field(default_factory=Counter)
    monitor: Counter[str] = field(default_factory=Counter)
    alerts: Counter[str] = field(default_factory=Counter)

    def add(self, simulation: Simulation) -> None:
        """One more life."""
        truth, judge, gatherer = simulation.truth, simulation.judge, simulation.gatherer
        self.quorum += truth.oracle.tally
        self.quorum["records committed"] += len(truth.committed)
        self.quorum["logs cut"] += truth.cuts
        self.quorum["stretches of calm, all well again"] += simulation.calms
        self.quorum["dead quorums given their endpoints back"] += simulation.activity.rescues
        self.chaos += simulation.chaos.tally
        self.monitor["observations"] += judge.rows
        self.monitor["answers that came late"] += gatherer.lates
        self.monitor["snapshots read"] += gatherer.snapshots
        self.monitor["restarts from a checkpoint"] += judge.restarts
        self.monitor["observations delivered again"] += judge.redelivery.duplicates
        self.monitor["crashes before a checkpoint"] += judge.redelivery.crashes
        self.alerts += judge.tally

    def lines(self) -> list[str]:
        """For people."""
        return [
            "in the quorum's log:",
            *_counted(self.quorum),
            "done to it:",
            *_counted(self.chaos),
            "the monitor:",
            *_counted(self.monitor),
            "alerts, each in its time:",
            *_counted(self.alerts),
        ]


def _counted(counts: Counter[str]) -> list[str]:
    return [f"  {name.replace('_', ' '):<42} {count:>8}" for name, count in sorted(counts.items()) if count]
