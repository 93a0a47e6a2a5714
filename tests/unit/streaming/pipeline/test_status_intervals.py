"""A status is yielded at most once a second, unless something happened."""

import json
from collections.abc import Iterable

from connectors.observations.observation import Event
from connectors.observations.partition_run import each_event
from rules.model.monitoring import Reason, Vantage
from streaming.pipeline.step import Step
from streaming.replay.cluster_settings import ClusterSettings
from tests.unit.streaming.pipeline.test_step_containment import BOOTSTRAP, NOW, OneCluster
from tests.unit.streaming.replay.log_script import LogScript, failed, poll, replica

VOTERS = ("1-a", "2-b", "3-c")


class Statuses:
    """The statuses of one cluster by a worker that is never restarted."""

    def __init__(self) -> None:
        Step._cache.clear()
        self.cluster = OneCluster()
        self.step = Step(
            {"prod": ClusterSettings(name="prod", cluster_id="cluster-id", bootstrap=BOOTSTRAP, vantage=Vantage.INSIDE)}
        )

    def at(self, now_s: float, events: Iterable[Event]) -> list[int]:
        """Applies one observation; returns the times of the statuses that the step yields, in ms since NOW."""
        frames = self.cluster.pass_to(self.step, self.cluster.frame(events, NOW + round(1_000 * now_s)))
        assert all(len(frame) for frame in frames), "no frame without a row"
        self.cluster.output = [row for frame in frames for row in frame.itertuples(index=False)]
        return [json.loads(row.body)["now_ms"] - NOW for row in self.cluster.taken("status")]


def polled(second: int) -> Event:
    rows = (replica(name, 100 + second, fetch=1_000 * second, caught_up=1_000 * second) for name in VOTERS)
    return poll(*rows, hw=90 + second)


def test_a_status_comes_once_a_second_and_with_an_alert() -> None:
    statuses = Statuses()
    shown = [at for tenth in range(0, 35, 2) for at in statuses.at(tenth / 10, [polled(tenth)])]
    assert shown == [0, 1_000, 2_000, 3_000]

    for tenth in range(36, 200, 3):
        shown = statuses.at(tenth / 10, [failed(Reason.NO_LEADER, place) for place in BOOTSTRAP])
        if statuses.cluster.alerts():
            break
    assert shown == [100 * tenth]


def test_the_status_before_an_election_is_shown_too() -> None:
    """Otherwise /metrics could not measure how long the election took."""
    statuses = Statuses()
    script = LogScript(now_ms=NOW)
    script.leader(1)
    script.voters(*VOTERS)
    statuses.at(0, each_event(script.read(after_ms=0).events))
    script.noops(2)
    assert statuses.at(0.5, each_event(script.read().events)) == []
    script.leader(2, epoch=2)

    assert statuses.at(1.2, each_event(script.read().events)) == [500, 1_200]
