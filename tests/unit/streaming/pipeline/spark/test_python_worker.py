"""The state that a worker keeps between tasks is not traversed by the collection that Spark runs after each task."""

import gc
import pickle
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from streaming.pipeline.cluster_processor import ClusterProcessor
from streaming.pipeline.schema import pack
from streaming.pipeline.spark import python_worker
from streaming.replay.cluster_monitor import ClusterMonitor
from tests.unit.streaming.pipeline.quiet_cluster import OneState, cluster_names, quiet_second, settings_of


@pytest.fixture(autouse=True)
def traversed_again() -> Iterator[None]:
    """No monitor of another test of this process is kept before the test, and none of this test after it."""
    ClusterProcessor._cache.clear()
    yield
    gc.unfreeze()
    ClusterProcessor._cache.clear()


def run_task(processor: ClusterProcessor, names: list[str], states: dict[int, OneState], second: int) -> None:
    """Runs one task as Spark does: the processor is unpickled for it, and called for each group of clusters."""
    task: ClusterProcessor = pickle.loads(pickle.dumps(processor))
    rows = [row for each in names for row in quiet_second(each, second)]
    first = second * len(rows)
    numbered = [replace(row, sequence=sequence) for sequence, row in enumerate(rows, first)]
    for group, frame in pack(numbered).to_pandas().groupby("group", sort=False):
        key: Any = group
        state: Any = states[key]
        for _ in task((key,), iter([frame]), state):
            pass


def monitors_traversed() -> int:
    """How many of the monitors that the worker keeps are traversed by a collection."""
    kept = {id(one.monitor) for one in ClusterProcessor._cache.values()}
    return sum(isinstance(one, ClusterMonitor) and id(one) in kept for one in gc.get_objects())


def test_state_of_former_tasks_is_excluded_and_traversed_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    names = cluster_names(3)
    processor, states = (
        ClusterProcessor({name: settings_of(name) for name in names}),
        defaultdict[int, OneState](OneState),
    )
    monkeypatch.setattr(python_worker, "_tasks", 0)

    run_task(processor, names, states, 0)
    run_task(processor, names, states, 1)
    gc.collect()
    assert monitors_traversed() == 0

    monkeypatch.setattr(python_worker, "_tasks", python_worker._TRAVERSED_EVERY - 1)
    run_task(processor, names, states, 2)
    assert monitors_traversed() == 3
