"""A few seeds of the simulation at every run; `make simulate SEED= STEPS=` runs any seed and number of steps."""

import pytest

from tests.simulation.simulation import Simulation


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3, 4))])
def test_invariants_hold_under_faults_and_the_monitor_agrees_with_the_ground_truth(seed: int) -> None:
    """The ground truth is checked after every commit and election, the monitor after every observation."""
    simulation = Simulation(seed)
    simulation.run(20_000)

    assert simulation.calm_phases >= 2, "no calm phase after the faults: recovery was not checked"
    assert simulation.checker.restarts > 3
    assert len(simulation.ground_truth.committed) > 100


@pytest.mark.long
@pytest.mark.timeout(2_400)
def test_a_million_steps() -> None:
    for seed in range(100, 120):
        Simulation(seed).run(50_000)


def test_the_same_seed_gives_the_same_simulation() -> None:
    one, other = Simulation(5), Simulation(5)
    one.run(4_000)
    other.run(4_000)

    assert one.ground_truth.committed == other.ground_truth.committed
    assert one.checker.alerts == other.checker.alerts
    assert one.checker.monitor.to_bytes() == other.checker.monitor.to_bytes()


SEEDS = (42, 21, 28, 32, 35, 36, 37, 40, *range(43, 60))
"""A planted fault has an effect only in some simulations: it does with one of these seeds."""
STEPS = 4_000


@pytest.mark.parametrize(
    ("fault", "polls_only", "rule"),
    [
        ("double-vote", False, "raft-invariant-broken"),
        ("double-vote", True, "raft-invariant-broken"),
        # A log reader gets a diverging epoch; polls alone show that the high watermark decreases.
        ("forgets-committed", False, "committed-metadata-lost"),
        ("forgets-committed", True, "raft-invariant-broken"),
        ("minority-commit", False, "committed-metadata-lost"),
        ("isr-grows", False, "recovery-invariant-broken"),
        ("leader-alone", False, "recovery-invariant-broken"),
    ],
)
def test_alerts_fire_for_planted_faults(fault: str, *, polls_only: bool, rule: str) -> None:
    faults = frozenset({fault})

    for seed in SEEDS:
        simulation = Simulation(seed, faults=faults, strict=False, polls_only=polls_only)
        simulation.run(STEPS)
        if rule in simulation.checker.fired_rules():
            assert simulation.ground_truth.violations
            return

    pytest.fail(f"{rule} never fired for {fault}, although invariants were violated")
