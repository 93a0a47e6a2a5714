"""A few seeds of the simulation at every run; `make simulate SEED= STEPS=` runs any seed and number of steps."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import pytest

from connectors.observations.observation import Event
from rules.model.identifiers import Millis
from streaming.replay import log
from streaming.replay.log import Log
from streaming.replay.machine import Machine
from streaming.replay.partitions import Partitions
from tests.simulation.event_counts import EventCounts
from tests.simulation.ground_truth import BrokenInvariant
from tests.simulation.planted_rule_errors import silent, without_hold
from tests.simulation.simulation import Simulation


@pytest.mark.kip("K044", "K045", "K047")
@pytest.mark.parametrize("seed", range(1, 5))
def test_invariants_hold_under_faults_and_the_monitor_agrees_with_the_ground_truth(seed: int) -> None:
    """K043, K044, K045, K046, K047, K048: after every step; the monitor after every observation."""
    simulation = Simulation(seed)
    simulation.run(25_000)

    assert simulation.calm_phases >= 1, "no calm phase after the faults: recovery was not checked"
    assert simulation.checker.restarts > 3
    assert len(simulation.ground_truth.committed) > 100


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_a_million_steps() -> None:
    counts = EventCounts()
    for seed in range(100, 120):
        simulation = Simulation(seed)
        simulation.run(50_000)
        counts.add(simulation)

    rare = ("ELRs cleared", "transactions aborted", "upgrades to kraft.version 1", "logs truncated", "topics removed")
    assert all(counts.quorum[each] for each in rare)
    frequent = ("broker-fenced", "stale-voter-endpoint", "no-leader")
    assert all(counts.alerts[f"{rule} firing"] and counts.alerts[f"{rule} resolved"] for rule in frequent)


def test_the_same_seed_gives_the_same_simulation() -> None:
    one, other = Simulation(5), Simulation(5)
    one.run(8_000)
    other.run(8_000)

    assert one.ground_truth.committed == other.ground_truth.committed
    assert one.checker.alerts == other.checker.alerts
    assert one.checker.monitor.to_bytes() == other.checker.monitor.to_bytes()


VIOLATIONS_BY_FAULT = {
    "double-vote": ({"double-vote", "old-epoch"}, "K043|K044"),
    "minority-commit": ({"minority-commit"}, "leader completeness"),
    "forgets-committed": ({"forgets-committed"}, "leader completeness"),
    "two-changes": ({"two-changes"}, "K045"),
    "keeps-voters": ({"keeps-voters"}, "K046"),
    "mark-beyond": ({"mark-beyond"}, "K044"),
    "isr-grows": ({"isr-grows"}, "K047"),
    "leader-alone": ({"leader-alone"}, "K047"),
}
SEEDS = (21, 28, 32, 35, 36, 37, 40, 42, *range(43, 60))
"""A planted fault has an effect only in some simulations: it does with one of these seeds."""
STEPS = 8_000


@pytest.mark.parametrize("fault", VIOLATIONS_BY_FAULT)
def test_the_invariant_checks_detect_planted_faults(fault: str) -> None:
    faults, check = VIOLATIONS_BY_FAULT[fault]

    with pytest.raises(BrokenInvariant, match=check) as broken:
        for seed in SEEDS:
            Simulation(seed, faults=frozenset(faults)).run(STEPS)

    assert "make simulate SEED=" in str(broken.value)


@pytest.mark.parametrize(
    ("fault", "polls_only", "rule"),
    [
        pytest.param(
            "double-vote",
            False,
            "raft-invariant-broken",
            marks=pytest.mark.kip("D025", "D050", "D052", "K043"),
        ),
        ("double-vote", True, "raft-invariant-broken"),
        # A log reader gets a diverging epoch; polls alone show that the high watermark decreases.
        pytest.param("forgets-committed", False, "committed-metadata-lost", marks=pytest.mark.kip("D052")),
        ("forgets-committed", True, "raft-invariant-broken"),
        ("minority-commit", False, "committed-metadata-lost"),
        ("isr-grows", False, "recovery-invariant-broken"),
        ("leader-alone", False, "recovery-invariant-broken"),
    ],
)
def test_alerts_fire_for_planted_faults(fault: str, *, polls_only: bool, rule: str) -> None:
    faults, _ = VIOLATIONS_BY_FAULT[fault]

    for seed in SEEDS:
        simulation = Simulation(seed, faults=frozenset(faults), strict=False, polls_only=polls_only)
        simulation.run(STEPS)
        if rule in simulation.checker.fired_rules():
            assert simulation.ground_truth.violations
            return

    pytest.fail(f"{rule} never fired for {fault}, although invariants were violated")


def applied_twice(patched: pytest.MonkeyPatch) -> None:
    whole = Machine.apply

    def apply(machine: Machine, events: Iterable[Event], *, sequence: int, observed_at_ms: Millis) -> bool:
        machine.sequence = -1
        return whole(machine, events, sequence=sequence, observed_at_ms=observed_at_ms)

    patched.setattr(Machine, "apply", apply)


def aborted_counts(patched: pytest.MonkeyPatch) -> None:
    whole = Log._end_transaction
    patched.setattr(Log, "_end_transaction", lambda log, ended: whole(log, replace(ended, aborted=False)))


def removed_stays(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Partitions, "remove", lambda partitions, topic_id: None)


def elr_stays(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Partitions, "clear_elr", lambda partitions, name: None)


def fencing_ignored(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(log, "with_change", lambda known, event, origin: known)


ERRORS = [
    pytest.param(applied_twice, "K048", id="applied-twice"),
    pytest.param(partial(silent, rule="no-leader"), "no-leader of .* does not fire", id="silent-no-leader"),
    pytest.param(partial(without_hold, rule="stale-voter-endpoint"), "stale-voter-endpoint of", id="impatient"),
]
RARE_ERRORS = [
    pytest.param(aborted_counts, "the monitor has", id="aborted-counts"),
    pytest.param(removed_stays, "the monitor has", id="removed-stays"),
    pytest.param(elr_stays, "the monitor has", id="elr-stays"),
    pytest.param(fencing_ignored, "brokers are", id="fencing-ignored"),
    *[
        pytest.param(partial(without_hold, rule=rule), f"{rule} of .* fires", id=f"impatient-{rule}")
        for rule in ("broker-fenced", "observer-could-be-voter", "open-transaction")
    ],
]


def assert_caught(message: str) -> None:
    with pytest.raises(BrokenInvariant, match=message):
        for seed in range(1, 30):
            Simulation(seed).run(25_000)


@pytest.mark.parametrize(("break_monitor", "message"), ERRORS)
def test_an_error_of_the_monitor_is_detected(
    break_monitor: Callable[[pytest.MonkeyPatch], None], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks of AlertChecker detect each of these errors of the monitor."""
    break_monitor(monkeypatch)

    assert_caught(message)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("break_monitor", "message"), RARE_ERRORS)
def test_an_error_of_the_monitor_in_rare_events_is_detected(
    break_monitor: Callable[[pytest.MonkeyPatch], None], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_monitor(monkeypatch)

    assert_caught(message)
