"""A few seeds of the simulation at every run; `make simulate SEED= STEPS=` runs any other, for as long as one likes."""

import pytest

from tests.simulation.simulation import Simulation
from tests.simulation.truth import Broken


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_quorum_that_is_hurt_keeps_its_laws_and_the_monitor_tells_the_truth(seed: int) -> None:
    """K043, K044, K045, K046, K047, K048: after every step; the monitor after every observation."""
    simulation = Simulation(seed)
    simulation.run(30_000)

    assert simulation.calms >= 1, "no calm after the chaos: nothing was judged in the end"
    assert simulation.judge.restarts > 3
    assert len(simulation.truth.committed) > 300


def test_one_seed_is_one_history() -> None:
    one, other = Simulation(5), Simulation(5)
    one.run(8_000)
    other.run(8_000)

    assert one.truth.committed == other.truth.committed
    assert one.judge.alerts == other.judge.alerts
    assert one.judge.watch.to_bytes() == other.judge.watch.to_bytes()


BROKEN = {
    "double-vote": ({"double-vote", "old-epoch"}, "K043|K044"),
    "minority-commit": ({"minority-commit"}, "leader completeness"),
    "forgets-committed": ({"forgets-committed"}, "leader completeness"),
    "isr-grows": ({"isr-grows"}, "K047"),
}
SEEDS = range(20, 44)
"""What is broken shows only when chance brings it about: one of these seeds does."""
STEPS = 8_000


@pytest.mark.parametrize("fault", BROKEN)
def test_the_laws_catch_what_is_broken_on_purpose(fault: str) -> None:
    faults, law = BROKEN[fault]

    with pytest.raises(Broken, match=law) as broken:
        for seed in SEEDS:
            Simulation(seed, faults=frozenset(faults)).run(STEPS)

    assert "make simulate SEED=" in str(broken.value)


@pytest.mark.parametrize(
    ("fault", "polls_only", "rule"),
    [
        ("double-vote", False, "raft-invariant-broken"),
        ("double-vote", True, "raft-invariant-broken"),
        # Who reads the log is told that the logs part; who may only poll sees the high watermark go back.
        ("forgets-committed", False, "committed-metadata-lost"),
        ("forgets-committed", True, "raft-invariant-broken"),
        ("minority-commit", False, "committed-metadata-lost"),
        ("isr-grows", False, "recovery-invariant-broken"),
    ],
)
def test_the_monitor_tells_what_is_broken_on_purpose(fault: str, *, polls_only: bool, rule: str) -> None:
    faults, _ = BROKEN[fault]

    for seed in SEEDS:
        simulation = Simulation(seed, faults=frozenset(faults), strict=False, polls_only=polls_only)
        simulation.run(STEPS)
        if rule in simulation.judge.fired():
            assert simulation.truth.broken
            return

    pytest.fail(f"{rule} never fired over {fault}, though laws were broken")
