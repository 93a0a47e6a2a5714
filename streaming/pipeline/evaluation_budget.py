"""EvaluationBudget: how much CPU time the rows of one cluster may take in a batch.

All clusters of a batch wait for the slowest one. So a cluster whose rows take longer, because a controller of it lies
or its log has much to read, is continued in the next batch; its rows wait in its state.

A job that catches up after a pause is not slowed down: the budget grows with the time that the rows cover.
"""

import time
from collections.abc import Callable
from typing import Final

CLUSTER_S: Final = 0.25
"""Seconds of CPU time for the rows of a cluster in a batch. At least one row is applied: it takes 0.2 s at most."""
TASK_S: Final = 0.5
"""The same of all clusters that one task evaluates: several of them may have many rows."""
COVERED: Final = 0.02
"""Further seconds of CPU time for each second that the rows cover: the rows of a cluster that keeps up take a fifth."""
MOST_WAITING_BYTES: Final = 256 * 1024 * 1024
"""If the rows of a cluster that wait have more bytes, they are applied without a budget: nothing is lost, and the state
stays bounded. A gatherer of the job itself stops reading long before; a relay cannot know."""


class EvaluationBudget:
    """The CPU time of one task. It is asked for only where that much time has passed: asking takes a while."""

    def __init__(
        self, cpu_s: Callable[[], float] = time.thread_time, passed_s: Callable[[], float] = time.perf_counter
    ) -> None:
        """`cpu_s` returns the CPU time of this thread, `passed_s` the time that passes, in seconds."""
        self._cpu_s, self._passed_s = cpu_s, passed_s
        self._task_ends_s = cpu_s() + TASK_S
        self._ends_s = self._not_before_s = 0.0

    def begin_cluster(self, covered_s: float) -> None:
        """Begins with a cluster whose new rows cover so many seconds."""
        more_s = COVERED * covered_s
        self._task_ends_s += more_s
        spent_s = self._cpu_s()
        self._ends_s = min(spent_s + CLUSTER_S + more_s, self._task_ends_s)
        self._not_before_s = self._passed_s() + self._ends_s - spent_s

    @property
    def is_spent(self) -> bool:
        """Whether no further row of this cluster is to be applied in this batch."""
        return self._passed_s() >= self._not_before_s and self._cpu_s() >= self._ends_s
