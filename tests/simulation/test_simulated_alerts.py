"""Alert timing: an alert fires after its hold and within a bound, not for a shorter condition, and resolves in time."""

from collections.abc import Callable

import pytest

from connectors.observations.log_event import BrokerChanged, TransactionBegan, TransactionEnded
from rules.evaluate import thresholds_for
from rules.model.identifiers import NodeId
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from tests.simulation.alert_expectations import EARLY_MS, TOLERANCE_MS
from tests.simulation.controlled_simulation import ControlledSimulation
from tests.simulation.network import EndpointState
from tests.simulation.redelivery import simulated_monitor
from tests.simulation.simulated_thresholds import HOLD_S

RECOVERY_S = 60


def break_endpoint(place: EndpointState) -> Callable[[ControlledSimulation], Callable[[], object]]:
    def start_fault(simulation: ControlledSimulation) -> Callable[[], object]:
        endpoint = simulation.followers[0].endpoint
        simulation.network.endpoint_states[endpoint] = place
        return lambda: simulation.network.endpoint_states.pop(endpoint)

    return start_fault


def wait_as_an_observer(simulation: ControlledSimulation) -> Callable[[], object]:
    observer = simulation.observer()
    return lambda: simulation.add(observer)


def leave_a_transaction_open(simulation: ControlledSimulation) -> Callable[[], object]:
    leader = simulation.leader
    leader.write(simulation.now_ms, TransactionBegan(at=leader.at(simulation.now_ms), name="left open"))
    return lambda: leader.write(simulation.now_ms, TransactionEnded(at=leader.at(simulation.now_ms), aborted=False))


def fence(simulation: ControlledSimulation) -> Callable[[], object]:
    def change(*, fenced: bool) -> None:
        at = simulation.leader.at(simulation.now_ms)
        record = BrokerChanged(at=at, id=NodeId(101), fenced=fenced, in_controlled_shutdown=None)
        simulation.leader.write(simulation.now_ms, record)

    change(fenced=True)
    return lambda: change(fenced=False)


SITUATIONS = [
    pytest.param("stale-voter-endpoint", break_endpoint(EndpointState.NAME_NOT_FOUND), id="name-gone"),
    pytest.param("stale-voter-endpoint", break_endpoint(EndpointState.CLOSED), id="closed-though-it-fetches"),
    pytest.param("stale-voter-endpoint", break_endpoint(EndpointState.TAKEN), id="another-answers"),
    pytest.param("observer-could-be-voter", wait_as_an_observer, id="observer"),
    pytest.param("open-transaction", leave_a_transaction_open, id="open-transaction"),
    pytest.param("broker-fenced", fence, id="fenced"),
]


@pytest.mark.parametrize(("rule", "start_fault"), SITUATIONS)
def test_an_alert_fires_in_time_and_resolves_in_time(
    rule: str, start_fault: Callable[[ControlledSimulation], Callable[[], object]]
) -> None:
    simulation = ControlledSimulation(3)
    hold_ms = simulation.checker.monitor.settings.thresholds[rule].ms("hold")
    repair = start_fault(simulation)

    took = simulation.until(lambda: simulation.is_firing(rule), (hold_ms + TOLERANCE_MS) / 1_000)
    assert took * 1_000 > hold_ms - EARLY_MS
    repair()
    simulation.until(lambda: not simulation.is_firing(rule), RECOVERY_S)


@pytest.mark.parametrize(("rule", "start_fault"), SITUATIONS)
def test_a_condition_that_ends_before_its_hold_never_fires(
    rule: str, start_fault: Callable[[ControlledSimulation], Callable[[], object]]
) -> None:
    simulation = ControlledSimulation(3)
    hold_ms = simulation.checker.monitor.settings.thresholds[rule].ms("hold")
    repair = start_fault(simulation)

    simulation.run_for(hold_ms / 1_000 - 10)
    repair()
    simulation.run_for(RECOVERY_S)

    assert rule not in simulation.checker.fired_rules()


def test_a_cause_clears_again_after_each_gap_and_the_hold_of_its_consequence_begins_after_it() -> None:
    simulation = ControlledSimulation(3)
    simulation.observer()
    followers = simulation.followers
    for node in followers:
        node.stop()
    simulation.until(lambda: simulation.is_firing("no-leader"), 120)
    for node in followers:
        node.start(simulation.now_ms)
    simulation.until(lambda: simulation.leading is not None, 30)

    for _ in range(3):
        simulation.run_for(8)
        simulation.gatherer.stop_until(simulation.now_ms + 20_000, restarts=False)
        simulation.run_for(21)
        assert simulation.is_firing("no-leader")

    simulation.until(lambda: not simulation.is_firing("no-leader"), 20)
    assert not simulation.is_firing("observer-could-be-voter")
    hold_s = HOLD_S["observer-could-be-voter"]
    assert simulation.until(lambda: simulation.is_firing("observer-could-be-voter"), hold_s + 15) > hold_s - 10


@pytest.mark.parametrize("skew_ms", [-3_600_000, 3_600_000])
def test_a_monitor_with_a_clock_one_hour_off_reports_the_clocks_and_nothing_else(skew_ms: int) -> None:
    simulation = ControlledSimulation(3)
    simulation.gatherer.skew_ms = skew_ms
    simulation.checker.monitor = simulated_monitor(simulation.checker.bootstrap)
    simulation.gatherer.position = simulation.gatherer.last_epoch = 0
    simulation.checker.oracle = type(simulation.checker.oracle)()
    simulation.run_for(90)
    assert {rule for rule, _ in simulation.checker.firing()} == {"leader-clock-skew"}

    simulation.leader.stop()
    simulation.until(lambda: simulation.leading is not None, 12)
    simulation.run_for(10)

    assert simulation.checker.monitor.machine.quorum().leader_id == simulation.leader.id
    assert simulation.checker.fired_rules() == {"leader-clock-skew"}


def test_an_uncommitted_voter_change_fires_with_the_default_thresholds() -> None:
    """Nothing is committed after it, so `high-watermark-stalled` fires too, and explains nothing."""
    simulation = ControlledSimulation(5)
    checker = simulation.checker
    checker.strict = False
    checker.monitor = ClusterMonitor.restored(
        checker.monitor.to_bytes(),
        ClusterSettings(name="simulated", bootstrap=simulation.gatherer.bootstrap, thresholds=thresholds_for({})),
    )
    followers = simulation.followers
    for node in followers:
        node.disk_full = True
    assert simulation.remove(followers[0])

    simulation.until(lambda: simulation.is_firing("voter-change-stuck"), 80)
    assert simulation.is_firing("high-watermark-stalled")

    for node in followers:
        node.disk_full = False
    simulation.until(lambda: not checker.firing(), 60)
