"""A few seeds of the simulation at every run; `make simulate SEED= STEPS=` runs any other, for as long as one likes."""

import pytest

from tests.simulation.simulation import Simulation
from tests.simulation.truth import Broken


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_quorum_that_is_hurt_keeps_its_laws_and_the_monitor_tells_the_truth(seed: int) -> None:
    """K043, K044, K045, K046, K047, K048: after every step; the monitor after every observation."""
    simulation = Simulation(seed)
    simulation.run(40_000)

    assert simulation.calms >= 2, "no calm after the chaos: nothing was judged in the end"
    assert simulation.judge.restarts > 5
    assert len(simulation.truth.committed) > 300


def test_one_seed_is_one_history() -> None:
    one, other = Simulation(5), Simulation(5)
    one.run(20_000)
    other.run(20_000)

    assert one.truth.committed == other.truth.committed
    assert one.judge.alerts == other.judge.alerts
    assert one.judge.watch.to_bytes() == other.judge.watch.to_bytes()


BROKEN = {
    "double-vote": ({"double-vote"}, "K043: epoch .* has the leaders"),
    "old-epoch": ({"double-vote", "old-epoch"}, "K043: epoch .* has the leaders"),
    "minority-commit": ({"minority-commit"}, "leader completeness"),
    "forgets-committed": ({"forgets-committed"}, "leader completeness"),
    "isr-grows": ({"isr-grows"}, "K047"),
}


@pytest.mark.parametrize(
    ("fault", "seed"),
    [("double-vote", 75), ("old-epoch", 1), ("minority-commit", 1), ("forgets-committed", 3), ("isr-grows", 1)],
)
def test_the_laws_catch_what_is_broken_on_purpose(fault: str, seed: int) -> None:
    faults, law = BROKEN[fault]
    with pytest.raises(Broken, match=law) as broken:
        Simulation(seed, faults=frozenset(faults)).run(40_000)
    assert f"make simulate SEED={seed} STEPS=" in str(broken.value)


@pytest.mark.parametrize(
    ("fault", "seed", "polls_only", "rule"),
    [
        ("double-vote", 75, False, "raft-invariant-broken"),
        ("old-epoch", 1, False, "raft-invariant-broken"),
        ("old-epoch", 2, True, "raft-invariant-broken"),
        # Who reads the log is told that the logs part; who may only poll sees the high watermark go back.
        ("forgets-committed", 3, False, "committed-metadata-lost"),
        ("forgets-committed", 3, True, "raft-invariant-broken"),
        ("minority-commit", 7, False, "committed-metadata-lost"),
        ("isr-grows", 1, False, "recovery-invariant-broken"),
    ],
)
def test_the_monitor_tells_what_is_broken_on_purpose(fault: str, seed: int, *, polls_only: bool, rule: str) -> None:
    faults, _ = BROKEN[fault]
    simulation = Simulation(seed, faults=frozenset(faults), strict=False, polls_only=polls_only)
    simulation.run(20_000)

    assert simulation.truth.broken
    assert rule in simulation.judge.fired()
