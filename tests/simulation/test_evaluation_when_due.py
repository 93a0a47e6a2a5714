"""A monitor that evaluates rules when their results may have changed sends the alerts of one that always evaluates.

On the simulation, with random thresholds and holds, and on the recorded journals.
"""

from collections.abc import Callable, Sequence
from random import Random

import pytest

from rules.evaluate import RULES, evaluate, thresholds_for
from rules.finding import Evaluation
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.decoded_row import DecodedRow
from tests.recordings import BROKER_RESTART, TWO_CLUSTERS, RecordedJournal
from tests.simulation.recorded_simulation import RecordedSimulation
from tests.simulation.simulated_monitor import simulated_monitor

HOLDS_S = (0, 0, 1, 3, 10)
OTHERS_S = (1, 2, 5, 10, 30, 60)


class EvaluatingMonitor(ClusterMonitor):
    """Evaluates every rule after every observation."""

    def evaluation(self) -> Evaluation:
        quorum = self.machine.quorum()
        if self._evaluated is None or self._evaluated[0] is not quorum:
            self._evaluated = (quorum, evaluate(quorum, self.settings.thresholds))
        return self._evaluated[1]


def random_thresholds(seed: int) -> dict[str, float]:
    """Returns overrides: short holds, so that pending conditions fire, and other ages and windows."""
    random = Random(seed)
    values: dict[str, float] = {}
    for rule in RULES.values():
        for each in rule.thresholds:
            short = each.name in ("hold", "clear")
            if random.random() < (0.8 if short else 0.3):
                values[f"{rule.id}.{each.name}"] = random.choice(HOLDS_S if short else OTHERS_S)
    return values


def assert_equal_monitors(
    rows: Sequence[DecodedRow], new: Callable[[type[ClusterMonitor]], ClusterMonitor]
) -> tuple[int, int]:
    """Compares alerts, evaluation and state after every row; returns the number of alerts and of evaluations kept."""
    due, always = new(ClusterMonitor), new(EvaluatingMonitor)
    alerts = kept = 0
    before: Evaluation | None = None
    for row in rows:
        sent = due.apply([row]).alerts
        assert sent == always.apply([row]).alerts, f"the alerts differ after row {row.sequence}"
        after = due.evaluation()
        assert after == always.evaluation(), f"the evaluations differ after row {row.sequence}"
        assert due.tracked == always.tracked, f"the tracked conditions differ after row {row.sequence}"
        kept += after is before
        before = after
        alerts += len(sent)
    assert due.to_bytes() == always.to_bytes()
    return alerts, kept


def compare_on_simulation(seed: int, steps: int, *, polls_only: bool = False) -> tuple[int, int]:
    simulation = RecordedSimulation(seed, polls_only=polls_only)
    bootstrap = simulation.gatherer.bootstrap
    simulation.run(steps)

    def new(kind: type[ClusterMonitor]) -> ClusterMonitor:
        return simulated_monitor(bootstrap, overrides=random_thresholds(seed), kind=kind)

    return assert_equal_monitors(simulation.rows, new)


@pytest.mark.parametrize("seed", range(1, 7))
def test_alerts_are_the_same_on_the_simulation(seed: int) -> None:
    alerts, kept = compare_on_simulation(seed, 5_000, polls_only=seed == 6)

    assert alerts > 0
    assert kept > 5, "some evaluations were not repeated"


@pytest.mark.parametrize(
    ("journal", "cluster"), [(TWO_CLUSTERS, "prod"), (TWO_CLUSTERS, "staging"), (BROKER_RESTART, "lab")]
)
@pytest.mark.parametrize("seed", range(4))
def test_alerts_are_the_same_on_a_recorded_journal(journal: RecordedJournal, cluster: str, seed: int) -> None:
    thresholds = thresholds_for(random_thresholds(seed)) if seed else journal.thresholds

    def new(kind: type[ClusterMonitor]) -> ClusterMonitor:
        return journal.monitor(cluster, kind=kind, thresholds=thresholds)

    alerts, _ = assert_equal_monitors(journal.rows(cluster), new)
    assert alerts > 0
