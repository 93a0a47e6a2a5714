"""The clusters of one gatherer start one after the other, and no faster than the event loop can serve them."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from connectors.gather.cluster_gatherer import ClusterGatherer
from connectors.gather.gatherer import Gatherer
from connectors.gather.gatherer_input import GathererSettings
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.kafka.event_loop import EventLoop
from connectors.observations.observation import Observation
from connectors.store.follow_progress import FollowProgress
from connectors.store.journal_writer import JournalWriter
from tests.unit.connectors.gather.test_loop_heartbeat import block


class EmptyJournal(JournalWriter):
    """A journal without rows."""

    def __init__(self) -> None:
        pass

    def append(self, observations: Sequence[Observation], /) -> None:
        raise AssertionError("no cluster was started")

    def publish(self) -> int:
        return 0

    def endpoints(self, cluster: str) -> str | None:
        return None

    def note_endpoints(self, endpoints: Mapping[str, str]) -> None:
        pass

    def follow_progress(self, cluster: str) -> FollowProgress | None:
        return None


def starts_s(monkeypatch: pytest.MonkeyPatch, folder: Path, *, clusters: int, work_s: float = 0.0) -> list[float]:
    """Returns when each cluster was started, if each start costs the loop `work_s`."""
    configured = tuple(ClusterConnection(name=f"c{number}", bootstrap=(("c", 9093),)) for number in range(clusters))
    settings = GathererSettings(clusters=configured, journal=str(folder))
    gatherer = Gatherer(settings, EmptyJournal())
    loop: EventLoop = gatherer._loop
    started: list[float] = []

    def start(_: ClusterGatherer) -> None:
        started.append(loop.now())
        loop.call_soon(lambda: block(loop, work_s))

    monkeypatch.setattr(ClusterGatherer, "start", start)
    loop.run(gatherer._start_all)
    loop.close()
    return [at - started[0] for at in started]


@pytest.mark.usefixtures("simulated_time_loop")
def test_clusters_start_one_after_the_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started = starts_s(monkeypatch, tmp_path, clusters=200)
    assert started[-1] == pytest.approx(3, abs=0.1)
    assert all(after > before for before, after in pairwise(started))


@pytest.mark.usefixtures("simulated_time_loop")
def test_starts_wait_for_a_loop_that_is_busy_with_those_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started = starts_s(monkeypatch, tmp_path, clusters=20, work_s=0.42)
    assert all(after - before > 0.8 for before, after in pairwise(started))
