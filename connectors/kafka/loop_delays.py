"""Time limits that do not count the time in which the event loop did not look at its sockets: no node is to blame.

A loop that has much to do, or a process that got no CPU time, reads an answer long after it arrived. A time limit for
an answer that ends meanwhile is extended by this time, at most by MOST_S.
"""

import heapq
import selectors
import time
from typing import Final

from kafka.net.selector import NetworkSelector, Task, TaskState

MOST_S: Final = 5.0
"""The most by which one time limit is extended."""
_ORDINARY_S: Final = 0.02
"""A turn of this length delays nothing."""


class TimedSelector(selectors.DefaultSelector):
    """Waits for sockets, and adds up for how long nobody waited."""

    def __init__(self) -> None:
        super().__init__()
        self._delay_s = 0.0
        self._turn_at: float | None = None
        """When the loop began to run tasks; None while it waits."""

    def delay_s(self) -> float:
        """Returns the seconds in which nobody waited so far, the running turn included."""
        running_s = 0.0 if self._turn_at is None else time.monotonic() - self._turn_at
        return self._delay_s + max(0.0, running_s - _ORDINARY_S)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Returns what has happened, after `timeout` seconds at the latest."""
        self._delay_s, self._turn_at = self.delay_s(), None
        waits_from = time.monotonic()
        events = super().select(timeout)
        self._turn_at = time.monotonic()
        if timeout is not None:
            # The process was stopped, or got no CPU time.
            self._delay_s += max(0.0, self._turn_at - waits_from - timeout - _ORDINARY_S)
        return events


class TimeLimit:
    """A time limit that begins now, and that the delays of a loop extend."""

    def __init__(self, net: "MeasuredLoop") -> None:
        self._net = net
        self._counted_s = net.delay_s()
        self._left_s = MOST_S

    def extension_s(self) -> float:
        """Returns by how much the limit, which has just ended, is to be extended; 0 if it has ended for good."""
        extension_s = min(self._net.delay_s() - self._counted_s, self._left_s)
        if extension_s < 0.001:
            return 0.0
        self._counted_s += extension_s
        self._left_s -= extension_s
        return extension_s


class MeasuredLoop(NetworkSelector):  # type: ignore[misc]
    """kafka-python's event loop, which measures its delays. A cancelled timer is skipped when it is due.

    kafka-python 3.0.12 removes it from the heap and sorts the heap again, although nearly every request's timer is
    cancelled.
    """

    def __init__(self) -> None:
        super().__init__(selector=TimedSelector)

    def delay_s(self) -> float:
        """Returns for how many seconds the loop has not looked at its sockets since it was made."""
        delay_s: float = self._selector.delay_s()
        return delay_s

    def _unschedule(self, task: Task) -> None:
        task.scheduled_at = None
        task.state = TaskState.UNSCHEDULED

    def _schedule_tasks(self) -> None:
        heap = self._scheduled
        while heap and heap[0][0] <= time.monotonic():
            when, task = heapq.heappop(heap)
            if _is_due(when, task):
                task.scheduled_at = None
                self._add_ready_task(task)

    def _next_scheduled_timeout(self, now: float) -> float | None:
        heap = self._scheduled
        while heap and not _is_due(*heap[0]):
            heapq.heappop(heap)
        return heap[0][0] - now if heap else None


def _is_due(when: float, task: Task) -> bool:
    """Whether the timer was neither cancelled nor set to another time."""
    return task.scheduled_at == when and task.state is TaskState.SCHEDULED
