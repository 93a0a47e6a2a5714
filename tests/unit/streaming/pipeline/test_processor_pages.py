"""The processor keeps large parts of a state as pages in Spark's checkpoint, and continues from any that was kept."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.observations.observation import Event
from connectors.store.durable_file import Synced, replace_file
from streaming.pipeline import page_files
from streaming.pipeline.cluster_processor import ClusterProcessor
from streaming.replay import stored_topics
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.state_codec import UnusableStateError, stored_references
from tests.scripts.log_script import LogScript
from tests.unit.streaming.pipeline.one_cluster import SETTINGS, OneCluster

PARTITIONS = 40


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in {"PAGE_PARTITIONS": 4, "SMALL_PAGE": 0}.items():
        monkeypatch.setattr(stored_topics, name, value)
    yield
    ClusterProcessor._cache.clear()


class PagedCluster(OneCluster):
    """A cluster whose pages are in a folder, and the states that Spark has kept."""

    def __init__(self, folder: Path | None) -> None:
        super().__init__(options={"spark_folder": folder})
        self.states: list[bytes] = []

    def apply(self, *events: Event, restarted: bool = False) -> None:
        self.batch(events, restarted=restarted)
        self.states.append(self.blob)

    def partitions(self) -> object:
        pages = ClusterProcessor({}, **self.options).pages("prod")
        settings = replace(SETTINGS, thresholds=self.thresholds)
        return ClusterMonitor.restored(self.blob, settings, pages=pages).machine.log.partitions.topics


def read(script: LogScript) -> list[Event]:
    """Returns the records written since as one observation."""
    written, script.events = script.events, []
    return [*written, script.advanced(script.offset)]


def beginning(script: LogScript) -> list[Event]:
    script.leader(1)
    script.kraft(1)
    script.voters("1-a", "2-b", "3-c")
    script.topic("orders")
    for number in range(PARTITIONS):
        script.partition("orders", number, 1, 2, 3)
    return read(script)


def changes(script: LogScript, batches: int) -> Iterator[list[Event]]:
    for batch in range(batches):
        script.change("orders", 7 * batch % PARTITIONS, isr=(1, 2), leader=1 + batch % 2)
        yield read(script)


@pytest.mark.parametrize("restarted", [True, False], ids=["restarted worker", "same worker"])
def test_a_state_with_pages_is_the_state_without(tmp_path: Path, restarted: bool) -> None:
    paged, script = PagedCluster(tmp_path), LogScript()
    observations = [beginning(script), *changes(script, 60)]
    for observation in observations:
        paged.apply(*observation, restarted=restarted)
    ClusterProcessor._cache.clear()
    whole = PagedCluster(None)
    for observation in observations:
        whole.apply(*observation)

    assert stored_references("prod", paged.states[-1])
    assert not stored_references("prod", whole.states[-1])
    assert paged.partitions() == whole.partitions()


def test_spark_may_repeat_any_batch_that_it_has_kept(tmp_path: Path) -> None:
    cluster, script = PagedCluster(tmp_path), LogScript()
    observations = [beginning(script), *changes(script, 40)]
    for observation in observations:
        cluster.apply(*observation)
    states = cluster.states[:]
    for kept in (39, 20, 0):
        cluster.blob, cluster.sequence = states[kept], kept
        for observation in observations[kept + 1 :]:
            cluster.apply(*observation)
        assert cluster.states[-1] == states[-1]


class KilledError(BaseException):
    """The worker is killed: nothing handles it."""


@pytest.mark.parametrize("moment", ["before", "torn", "after"])
def test_a_worker_that_is_killed_while_it_writes_a_page_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    script = LogScript()
    observations = [beginning(script), *changes(script, 30)]
    undisturbed = PagedCluster(tmp_path / "undisturbed")
    for observation in observations:
        undisturbed.apply(*observation)
    ClusterProcessor._cache.clear()
    cluster, kills, calls = PagedCluster(tmp_path / "killed"), 0, 0

    def killed(path: Path, content: bytes, *, synced: Synced) -> None:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            if moment == "torn":
                path.with_name(path.name + ".new").write_bytes(content[: len(content) // 2])
            elif moment == "after":
                replace_file(path, content, synced=synced)
            raise KilledError
        replace_file(path, content, synced=synced)

    monkeypatch.setattr(page_files, "replace_file", killed)
    for number, observation in enumerate(observations):
        while len(cluster.states) == number:
            cluster.sequence = number - 1
            try:
                cluster.apply(*observation, restarted=kills > 0)
            except KilledError:
                kills += 1

    assert kills > 5
    assert cluster.states == undisturbed.states
    assert cluster.partitions() == undisturbed.partitions()


def test_a_state_whose_page_is_missing_ends_the_query_which_begins_another_one(tmp_path: Path) -> None:
    cluster, script = PagedCluster(tmp_path), LogScript()
    cluster.apply(*beginning(script))
    next(path for path in tmp_path.rglob("*") if path.is_file()).unlink()

    with pytest.raises(UnusableStateError, match=r"the state of cluster prod lacks a page: .* is missing"):
        cluster.apply(*next(changes(script, 1)), restarted=True)


def test_a_page_that_cannot_be_read_now_is_not_a_damaged_state(tmp_path: Path) -> None:
    cluster, script = PagedCluster(tmp_path), LogScript()
    cluster.apply(*beginning(script))
    path = next(path for path in tmp_path.rglob("*") if path.is_file())
    content = path.read_bytes()
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match=path.name):
        cluster.apply(*next(changes(script, 1)), restarted=True)

    path.rmdir()
    path.write_bytes(content)
    cluster.apply(*next(changes(script, 1)), restarted=True)
    assert cluster.taken("quarantine") == []
