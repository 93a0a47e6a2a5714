"""A status is yielded when an evaluation changed, at most once a second; otherwise every few seconds."""

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from connectors.observations.observation import Event
from connectors.observations.partition_run import each_event
from rules.model.monitoring import Reason, Vantage
from streaming.pipeline.step import CHANGED_STATUS_MS, QUIET_STATUS_MS, Step
from streaming.replay.cluster_settings import ClusterSettings
from tests.unit.streaming.pipeline.test_step_containment import NOW, OneCluster
from tests.unit.streaming.replay.log_script import LogScript, failed, poll, replica

VOTERS = ("1-a", "2-b", "3-c")
PLACES = ("c1:9093", "c2:9093", "c3:9093")


@dataclass
class Fleet:
    """One cluster of a job with many clusters; the worker is never restarted."""

    clusters: int
    cluster: OneCluster = field(default_factory=OneCluster)
    frames: int = 0

    def __post_init__(self) -> None:
        Step._cache.clear()
        settings = ClusterSettings(name="prod", cluster_id="cluster-id", bootstrap=PLACES, vantage=Vantage.INSIDE)
        self.step = Step({"prod": settings} | {f"other-{one}": settings for one in range(self.clusters - 1)})

    def second(self, now_s: float, *events: Event) -> list[int]:
        """Applies one observation; returns the times of the statuses that the step yields, in ms since NOW."""
        frame = self.cluster.frame(events, NOW + round(1_000 * now_s))
        output: list[Any] = []
        for each in self.cluster.pass_to(self.step, frame):
            assert len(each), "no frame without a row"
            output += list(each.itertuples(index=False))
            self.frames += 1
        return [json.loads(row.body)["now_ms"] - NOW for row in output if row.kind == "status"]


def polled(second: int, leader: int = 1, epoch: int = 1) -> Event:
    rows = (replica(name, 100 + second, fetch=1_000 * second, caught_up=1_000 * second) for name in VOTERS)
    return poll(*rows, leader=leader, epoch=epoch, hw=90 + second)


@pytest.mark.parametrize(("clusters", "interval_s"), [(1, 1), (20, 1), (60, 3), (1_000, 5)])
def test_the_status_of_a_quiet_cluster_comes_every_few_seconds(clusters: int, interval_s: int) -> None:
    fleet = Fleet(clusters)
    times = [at for second in range(31) for at in fleet.second(second, polled(second))]

    steady = [at for at in times if at >= 10_000]
    assert {after - before for before, after in pairwise(steady)} == {interval_s * 1_000}
    assert len(steady) >= 20 // interval_s - 1
    assert interval_s * 1_000 <= QUIET_STATUS_MS


def test_a_change_is_shown_within_a_second() -> None:
    fleet = Fleet(1_000)
    for second in range(20):
        fleet.second(second, polled(second))

    assert fleet.second(20, polled(20, leader=2, epoch=2)) == [20_000]
    assert fleet.second(20.3, polled(21, leader=3, epoch=3)) == [], "at most once a second"
    assert fleet.second(20 + CHANGED_STATUS_MS / 1_000, polled(22, leader=3, epoch=3)) == [21_000]


def test_an_alert_comes_with_a_status() -> None:
    fleet = Fleet(1_000)
    for second in range(10):
        fleet.second(second, polled(second))
    shown: list[int] = []
    for tenth in range(100):
        now_s = 10 + tenth / 10
        shown += fleet.second(now_s, *(failed(Reason.NO_LEADER, place) for place in PLACES))
        fired = [alert for alert in fleet.cluster.alerts() if alert[0] == "no-leader"]
        if fired:
            break

    assert shown


def test_the_status_before_an_election_is_shown_too() -> None:
    """Otherwise /metrics could not measure how long the election took."""
    fleet = Fleet(1_000)
    script = LogScript(now_ms=NOW)
    script.leader(1)
    script.voters(*VOTERS)
    fleet.second(0, *each_event(script.read(after_ms=0).events))
    shown: list[int] = []
    for second in range(1, 9):
        script.noops(2)
        shown = fleet.second(second, *each_event(script.read().events), polled(second))
    assert shown == []
    script.leader(2, epoch=2)

    assert fleet.second(9, *each_event(script.read().events)) == [8_000, 9_000]
