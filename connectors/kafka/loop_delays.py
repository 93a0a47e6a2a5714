"""Time limits that do not count the time in which the event loop did not look at its sockets.

One thread drives the loop. `call_soon_threadsafe` is thread-safe, as in kafka-python.
"""

import heapq
import selectors
import time
from bisect import bisect_right
from typing import Final

from connectors.kafka.kafka_python import NetworkSelector, Task, TaskState

MOST_S: Final = 5.0
"""The most by which one time limit is extended."""
_ORDINARY_S: Final = 0.02
"""A turn of this length delays nothing."""
_REMEMBERED_S: Final = 120.0
_TRIMMED_FROM: Final = 10_000


class LoopDelays:
    """For how long an event loop did not look at its sockets in the last two minutes: no node is blamed for it.

    A loop that has much to do, or a process that got no CPU time, reads an answer long after it arrived. A time limit
    for an answer that ends meanwhile is extended by this time, at most by MOST_S. Times are of the loop's clock.
    """

    def __init__(self) -> None:
        self._ends: list[float] = []
        self._seconds: list[float] = []
        self._totals: list[float] = [0.0]
        """The sum of the delays before each turn; the last: of all."""
        self._turn_at: float | None = None

    def begin_turn(self, at: float) -> None:
        """Notes that the loop has looked at its sockets, and begins to run tasks."""
        self._turn_at = at

    def end_turn(self, at: float) -> None:
        """Notes that the loop is about to look at its sockets."""
        if self._turn_at is not None:
            self.add(at, at - self._turn_at)
            self._turn_at = None

    def add(self, end: float, seconds: float) -> None:
        """Adds a time in which the loop did not look, of which _ORDINARY_S is no delay."""
        delay = seconds - _ORDINARY_S
        if delay <= 0:
            return
        self._ends.append(end)
        self._seconds.append(delay)
        self._totals.append(self._totals[-1] + delay)
        if len(self._ends) > _TRIMMED_FROM:
            old = bisect_right(self._ends, end - _REMEMBERED_S)
            del self._ends[:old], self._seconds[:old], self._totals[:old]

    def since(self, at: float, now: float) -> float:
        """Returns the seconds between `at` and `now` that were delays, the running turn included."""
        first = bisect_right(self._ends, at)
        delay = self._totals[-1] - self._totals[first]
        if first < len(self._ends):
            # `at` may be in the middle of that turn.
            delay -= max(0.0, self._seconds[first] - (self._ends[first] - at))
        if self._turn_at is not None:
            delay += max(0.0, now - max(self._turn_at, at) - _ORDINARY_S)
        return delay


class TimeLimit:
    """A time limit that the loop's delays extend."""

    def __init__(self, delays: LoopDelays, began: float) -> None:
        """It begins at `began`."""
        self._delays = delays
        self._began = began
        self._extended_s = 0.0

    def extension_s(self, now: float) -> float:
        """Returns by how much the limit, which has just ended, is to be extended; 0 if it has ended for good."""
        delay = min(self._delays.since(self._began, now), MOST_S)
        missing = delay - self._extended_s
        if missing < 0.001:
            return 0.0
        self._extended_s = delay
        return missing


class TimedSelector(selectors.DefaultSelector):
    """Waits for sockets, and notes for how long nobody waited."""

    def __init__(self) -> None:
        super().__init__()
        self.delays = LoopDelays()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Returns what has happened, after `timeout` seconds at the latest."""
        waits_from = time.monotonic()
        self.delays.end_turn(waits_from)
        events = super().select(timeout)
        turn_at = time.monotonic()
        if timeout is not None:
            # The process was stopped, or got no CPU time.
            self.delays.add(turn_at, turn_at - waits_from - timeout)
        self.delays.begin_turn(turn_at)
        return events


class MeasuredLoop(NetworkSelector):  # type: ignore[misc]
    """kafka-python's event loop, which measures its delays. A cancelled timer is skipped when it is due.

    kafka-python 3.0.12 removes it from the heap and sorts the heap again, although nearly every request's timer is
    cancelled.
    """

    def __init__(self) -> None:
        super().__init__(selector=TimedSelector)

    @property
    def delays(self) -> LoopDelays:
        """For how long the loop did not look at its sockets."""
        delays: LoopDelays = self._selector.delays
        return delays

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
