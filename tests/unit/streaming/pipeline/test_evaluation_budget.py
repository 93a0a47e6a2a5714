"""Rows that take longer than a batch may wait in their cluster's state: none is lost, and no other cluster waits."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from connectors.observations.observation import Observation
from connectors.store.alert_codec import ALERT
from rules.alert import Alert
from rules.model.identifiers import Millis
from streaming.pipeline import cluster_processor, evaluation_budget
from streaming.pipeline.cluster_processor import ClusterProcessor
from streaming.pipeline.evaluation_budget import CLUSTER_S, TASK_S, EvaluationBudget
from streaming.pipeline.output_rows import WAITING_ROWS, OutputKind, OutputRow
from streaming.pipeline.schema import pack, unpack_states
from streaming.replay.cluster_monitor import ClusterMonitor, WaitingRows
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.machine import Machine
from streaming.replay.state_codec import stored_references
from tests.recordings import TWO_CLUSTERS
from tests.unit.connectors.metadata.metadata_bytes import batch, noop
from tests.unit.streaming.pipeline.quiet_cluster import OneState, quiet_second, settings_of

GROUP = 5
BUSY, QUIET = "busy", "quiet"
CLUSTERS = {name: settings_of(name) for name in (BUSY, QUIET)}


@dataclass
class CpuClock:
    """CPU time that passes with each reading: the budget reads it once for a row."""

    row_s: float
    now_s: float = 0.0

    def __call__(self) -> float:
        self.now_s += self.row_s
        return self.now_s


@dataclass
class BudgetedGroup:
    """Passes batches of a group to the processor, of which each row takes `clock.row_s`."""

    clusters: Mapping[str, ClusterSettings]
    clock: CpuClock
    folder: Path | None = None
    state: OneState = field(default_factory=OneState)
    output: list[OutputRow] = field(default_factory=list)

    def batch(self, rows: Sequence[Observation], *, restarted: bool = False) -> None:
        if restarted:
            ClusterProcessor._cache.clear()
        state: Any = self.state
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                cluster_processor, "EvaluationBudget", lambda: EvaluationBudget(self.clock, lambda: math.inf)
            )
            processor = ClusterProcessor(self.clusters, spark_folder=self.folder)
            for frame in processor((GROUP,), iter([pack(rows).to_pandas()]), state):
                self.output += [(*row,) for row in frame.itertuples(index=False)]

    def monitor(self, cluster: str) -> ClusterMonitor:
        assert self.state.value is not None
        pages = ClusterProcessor({}, spark_folder=self.folder).pages(cluster)
        return ClusterMonitor.restored(unpack_states(self.state.value)[cluster], self.clusters[cluster], pages)

    def alerts(self, cluster: str) -> list[Alert]:
        return [ALERT.validate_json(body) for kind, name, _, body in self.output if (kind, name) == ("alert", cluster)]

    def waiting(self) -> list[tuple[str, WaitingRows]]:
        return [
            (name, WAITING_ROWS.validate_json(body))
            for kind, name, _, body in self.output
            if kind == OutputKind.WAITING
        ]


@pytest.fixture(autouse=True)
def no_former_states() -> Iterator[None]:
    ClusterProcessor._cache.clear()
    yield
    ClusterProcessor._cache.clear()


def rows_of(cluster: str, seconds: int, first: int = 0) -> list[Observation]:
    rows = [row for second in range(seconds) for row in quiet_second(cluster, second)]
    return [replace(row, sequence=first + number) for number, row in enumerate(rows)]


def test_a_cluster_with_many_rows_is_continued_in_the_next_batches() -> None:
    group = BudgetedGroup(CLUSTERS, CpuClock(row_s=CLUSTER_S / 4))
    busy = rows_of(BUSY, 5)
    (quiet, *_) = rows_of(QUIET, 1, first=100)

    group.batch([*busy, quiet])

    assert group.monitor(QUIET).machine.sequence == 100
    applied = group.monitor(BUSY).machine.sequence + 1
    assert 1 <= applied < len(busy)
    waiting = busy[applied:]
    size = sum(len(row.payload) for row in waiting)
    assert group.waiting() == [(BUSY, WaitingRows(size=size, since_ms=Millis(waiting[0].observed_at_ms)))]

    for number in range(6):
        group.batch([replace(busy[-1], sequence=101 + number)], restarted=number % 2 == 0)
    assert group.monitor(BUSY).machine.sequence == 106
    assert group.monitor(BUSY).waiting == ()
    assert group.waiting()[-1] == (BUSY, WaitingRows(size=0, since_ms=None))
    reported = len(group.waiting())
    group.batch([replace(quiet, sequence=110)])
    assert len(group.waiting()) == reported, "nothing is said of clusters without rows that wait"


def test_the_rows_of_all_clusters_of_a_task_have_a_budget_together_and_each_has_its_first_row() -> None:
    names = [f"busy-{number}" for number in range(8)]
    clusters = {name: settings_of(name) for name in names}
    group = BudgetedGroup(clusters, CpuClock(row_s=TASK_S / 8))

    group.batch([row for number, name in enumerate(names) for row in rows_of(name, 5, first=1_000 * number)])

    applied = [group.monitor(name).machine.sequence - 1_000 * number + 1 for number, name in enumerate(names)]
    assert min(applied) == 1
    assert sum(applied) <= 9 + len(names)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_rows_that_wait_give_the_alerts_that_they_give_at_once(seed: int, tmp_path: Path) -> None:
    clusters = {name: TWO_CLUSTERS.monitor(name).settings for name in TWO_CLUSTERS.cluster_ids}
    rows, random = TWO_CLUSTERS.observations(), Random(seed)
    at_once = BudgetedGroup(clusters, CpuClock(row_s=0))
    group = BudgetedGroup(clusters, CpuClock(row_s=0), tmp_path)
    at = 0
    while at < len(rows):
        until = at + random.randint(1, 400)
        at_once.batch(rows[at:until])
        at = until
    ClusterProcessor._cache.clear()
    at = 0
    while at < len(rows):
        until = at + random.randint(1, 400)
        group.clock.row_s = random.choice([0, CLUSTER_S / 10, CLUSTER_S])
        group.batch(rows[at:until], restarted=random.random() < 0.3)
        at = until
    group.clock.row_s = 0
    newest = {name: max(row.sequence for row in rows if row.cluster == name) for name in clusters}
    # The last rows may wait; a row that was applied before is skipped.
    group.batch([row for row in rows if row.sequence in newest.values()])

    assert any(waiting.size for _, waiting in group.waiting()), "some rows had to wait"
    for name in clusters:
        assert group.alerts(name) == at_once.alerts(name)
        assert group.monitor(name).machine.sequence == newest[name]


def test_large_rows_wait_in_pages(tmp_path: Path) -> None:
    group = BudgetedGroup(CLUSTERS, CpuClock(row_s=CLUSTER_S), tmp_path)
    first, *rows = rows_of(BUSY, 2)
    large = [replace(row, payload=batch([noop()] * 500)) for row in rows]

    group.batch([first, *large])

    assert group.state.value is not None
    blob = unpack_states(group.state.value)[BUSY]
    assert len(blob) < 4_000
    waiting = group.monitor(BUSY).waiting
    assert len(stored_references(BUSY, blob)) == len(waiting) > 1
    assert [row.payload for row in waiting] == [row.payload for row in large[-len(waiting) :]]


def test_a_row_that_fails_while_others_wait_loses_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    group = BudgetedGroup(CLUSTERS, CpuClock(row_s=CLUSTER_S / 4))
    rows = rows_of(BUSY, 5)
    apply = Machine.apply

    def failing(self: Machine, items: Any, *, sequence: int, observed_at_ms: Any) -> bool:
        if sequence == 2:
            raise ValueError("planted")
        return apply(self, items, sequence=sequence, observed_at_ms=observed_at_ms)

    monkeypatch.setattr(Machine, "apply", failing)
    group.batch(rows[:10])
    group.clock.row_s = 0
    group.batch(rows[10:])

    assert group.monitor(BUSY).machine.sequence == rows[-1].sequence
    assert [name for kind, _, name, _ in group.output if kind == OutputKind.QUARANTINE] == ["2-1"]


def test_too_many_bytes_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_processor, "MOST_WAITING_BYTES", 100)
    assert evaluation_budget.MOST_WAITING_BYTES > 100
    group = BudgetedGroup(CLUSTERS, CpuClock(row_s=CLUSTER_S))

    group.batch(rows_of(BUSY, 3))

    assert group.monitor(BUSY).waiting == ()


def test_a_single_cluster_never_waits() -> None:
    group = BudgetedGroup({BUSY: CLUSTERS[BUSY]}, CpuClock(row_s=CLUSTER_S))

    group.batch(rows_of(BUSY, 3))

    assert group.monitor(BUSY).waiting == ()
