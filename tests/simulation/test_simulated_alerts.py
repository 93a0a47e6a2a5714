"""Alerts in time: told between the hold and the hold with a bound when it stood, not when it did not, and resolved."""

from collections.abc import Callable

import pytest

from connectors.event import BrokerChanged, TransactionBegan, TransactionEnded
from rules.model.identifiers import NodeId
from tests.simulation.alert_checker import EARLY_MS, SLACK_MS
from tests.simulation.network import Place
from tests.simulation.scripted_quorum import Scene

MEND_S = 60


def vanish(place: Place) -> Callable[[Scene], Callable[[], object]]:
    def begin(scene: Scene) -> Callable[[], object]:
        endpoint = scene.followers[0].endpoint
        scene.network.places[endpoint] = place
        return lambda: scene.network.places.pop(endpoint)

    return begin


def wait_as_an_observer(scene: Scene) -> Callable[[], object]:
    observer = scene.observer()
    return lambda: scene.add(observer)


def leave_a_transaction_open(scene: Scene) -> Callable[[], object]:
    leader = scene.leader
    leader.write(scene.now_ms, TransactionBegan(at=leader.at(scene.now_ms), name="left open"))
    return lambda: leader.write(scene.now_ms, TransactionEnded(at=leader.at(scene.now_ms), aborted=False))


def fence(scene: Scene) -> Callable[[], object]:
    def change(*, fenced: bool) -> None:
        at = scene.leader.at(scene.now_ms)
        record = BrokerChanged(at=at, id=NodeId(101), fenced=fenced, in_controlled_shutdown=None)
        scene.leader.write(scene.now_ms, record)

    change(fenced=True)
    return lambda: change(fenced=False)


SITUATIONS = [
    pytest.param("stale-voter-endpoint", vanish(Place.NAME_GONE), id="name-gone"),
    pytest.param("stale-voter-endpoint", vanish(Place.CLOSED), id="closed-though-it-fetches"),
    pytest.param("stale-voter-endpoint", vanish(Place.TAKEN), id="another-answers"),
    pytest.param("observer-could-be-voter", wait_as_an_observer, id="observer"),
    pytest.param("open-transaction", leave_a_transaction_open, id="open-transaction"),
    pytest.param("broker-fenced", fence, id="fenced"),
]


@pytest.mark.parametrize(("rule", "begin"), SITUATIONS)
def test_what_stands_is_told_in_time_and_resolved_in_time(
    rule: str, begin: Callable[[Scene], Callable[[], object]]
) -> None:
    scene = Scene(3)
    hold_ms = scene.judge.watch.thresholds[rule].ms("hold")
    mend = begin(scene)

    took = scene.until(lambda: scene.told(rule), (hold_ms + SLACK_MS) / 1_000)
    assert took * 1_000 > hold_ms - EARLY_MS
    mend()
    scene.until(lambda: not scene.told(rule), MEND_S)


@pytest.mark.parametrize(("rule", "begin"), SITUATIONS)
def test_what_is_mended_before_its_hold_is_never_told(
    rule: str, begin: Callable[[Scene], Callable[[], object]]
) -> None:
    scene = Scene(3)
    hold_ms = scene.judge.watch.thresholds[rule].ms("hold")
    mend = begin(scene)

    scene.seconds(hold_ms / 1_000 - 10)
    mend()
    scene.seconds(MEND_S)

    assert rule not in scene.judge.fired()


@pytest.mark.parametrize("skew_ms", [-3_600_000, 3_600_000])
def test_a_monitor_whose_clock_is_an_hour_off_tells_the_same(skew_ms: int) -> None:
    scene = Scene(3)
    scene.gatherer.skew_ms = skew_ms
    scene.judge.watch = scene.judge._watch(None)
    scene.gatherer.position = scene.gatherer.last_epoch = 0
    scene.judge.oracle = type(scene.judge.oracle)()
    scene.seconds(90)
    assert scene.judge.firing() == {}

    scene.leader.stop()
    scene.until(lambda: scene.leading is not None, 12)
    scene.seconds(10)

    assert scene.judge.watch.machine.quorum().leader_id == scene.leader.id
    assert scene.judge.fired() == set()
