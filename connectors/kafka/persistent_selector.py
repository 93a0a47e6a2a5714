"""kafka-python's event loop at a third of its cost: for a gatherer that serves a thousand clusters.

Three properties of kafka-python 3.0.12's `NetworkSelector` cost the most and are changed here; the order in which
tasks run stays the same.

- Cancelling a timer removes it from the heap and sorts the heap again, although nearly every request's timer is
  cancelled. Here a cancelled timer stays in the heap and is skipped when it is due.
- Each wait for a socket registers it with epoll and each event unregisters it. Here a socket that was waited for stays
  registered for reading, until bytes arrive for which no task waits.
- A plain function is wrapped in a generator and examined by `inspect`. Here it is called.

One thread drives the loop. `call_soon_threadsafe` is thread-safe, as in kafka-python.
"""

import heapq
import selectors
import time
from bisect import bisect_right
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, Final

from connectors.kafka.kafka_python import Future, KernelEvent, NetworkSelector, Task, TaskState, kafka_errors

MOST_S: Final = 5.0
"""The most by which one time limit is extended."""
_ORDINARY_S: Final = 0.02
"""A turn of this length delays nothing."""
_REMEMBERED_S: Final = 120.0
_TRIMMED_FROM: Final = 10_000
_COROUTINES: Final = 0x20 | 0x80 | 0x200
"""Flags of a generator, a coroutine and an asynchronous generator (inspect.CO_GENERATOR, ...)."""
_LONGEST_WAIT_S: Final = 2_147_483.0
_READ_BYTES: Final = 256 * 1024
_ENDED: Final = (TaskState.DONE, TaskState.CANCELLED)


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
        assert self._turn_at is not None
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


class _FunctionTask(Task):  # type: ignore[misc]
    """A task that calls a function once."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        # kafka-python's mark of a task that is not done.
        self._stack: Any = (None, None)
        self._res = None
        self._exc: BaseException | None = None
        self.scheduled_at: float | None = None
        self.state = TaskState.CREATED

    def __call__(self, arg: object = None) -> None:
        self._stack = None
        self._work()
        raise StopIteration

    def close(self) -> None:
        """Cancels the call."""
        if self._stack is not None:
            self._stack = None
            self.state = TaskState.CANCELLED
            self._exc = kafka_errors.Cancelled()


class _Registration:
    """A socket that is registered with epoll, and the tasks that wait for it."""

    __slots__ = ("descriptor", "events", "fileobj", "reader", "writer")

    def __init__(self, fileobj: Any, descriptor: int, events: int) -> None:
        self.fileobj = fileobj
        self.descriptor = descriptor
        self.events = events
        self.reader: Task | None = None
        self.writer: Task | None = None


class PersistentSelector(NetworkSelector):  # type: ignore[misc]
    """kafka-python's event loop with lazily cancelled timers and sockets that stay registered."""

    def __init__(self, **configs: Any) -> None:
        super().__init__(**configs)
        self._registrations: dict[int, _Registration] = {}
        self._current: Task | None = None
        self.read_buffer = memoryview(bytearray(_READ_BYTES))
        """What a transport reads into, and copies from before any other task runs. No other loop may use it."""
        self.delays = LoopDelays()
        """For how long the loop did not look at its sockets."""

    def call_at(self, when: float, task: Any) -> Task:
        """Runs the task at this time of the monotonic clock."""
        return super().call_at(when, _as_task(task))

    def call_later(self, delay: float, task: Any) -> Task:
        """Runs the task after this many seconds."""
        return super().call_at(time.monotonic() + delay, _as_task(task))

    def call_soon(self, task: Any) -> Task:
        """Runs the task after those that are ready."""
        return super().call_soon(_as_task(task))

    def register_event(self, fileobj: Any, event: int, task: Any) -> None:
        """Makes the task ready once the socket is readable or writable."""
        task = _as_task(task)
        descriptor = fileobj.fileno()
        known = self._registrations.get(descriptor)
        if known is None or known.fileobj is not fileobj:
            if known is not None:
                # The descriptor's former socket was closed, which has taken it out of epoll.
                self._drop(known)
            known = self._registrations[descriptor] = _Registration(fileobj, descriptor, event)
            self._selector.register(descriptor, event, known)
        elif not known.events & event:
            known.events |= event
            self._selector.modify(descriptor, known.events, known)
        waiting = known.reader if event == selectors.EVENT_READ else known.writer
        if waiting is not None and waiting is not task and not waiting.is_done:
            raise RuntimeError(f"another task waits for event {event} of {fileobj}")
        if event == selectors.EVENT_READ:
            known.reader = task
        else:
            known.writer = task

    def unregister_event(self, fileobj: Any, event: int) -> None:
        """Forgets the waiting tasks. The socket stays registered for reading unless `event` is both."""
        known = self._registrations.get(fileobj.fileno())
        if known is None or known.fileobj is not fileobj:
            return
        if event & selectors.EVENT_READ:
            known.reader = None
        if event & selectors.EVENT_WRITE:
            known.writer = None
            if event & selectors.EVENT_READ:
                self._drop(known)
            else:
                self._narrow(known, selectors.EVENT_WRITE)

    def _wait_io(self, fileobj: Any, event: int, timeout_at: float | None) -> None:
        if timeout_at is not None or event != selectors.EVENT_READ:
            super()._wait_io(fileobj, event, timeout_at)
            return
        # Without a timeout nothing must be undone afterwards: an event forgets its reader.
        task = self._current
        assert task is not None, "only a task waits"
        self.register_event(fileobj, event, task)
        task.state = TaskState.WAIT_IO

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

    def _poll_once(self, timeout: float | None = None) -> None:
        if self._ready:
            timeout = 0.0
        else:
            due = self._next_scheduled_timeout(time.monotonic())
            if due is not None and (timeout is None or due < timeout):
                timeout = due
        if timeout is not None:
            timeout = min(max(timeout, 0.0), _LONGEST_WAIT_S)
        waits_from = time.monotonic()
        events = self._selector.select(timeout)
        turn_at = time.monotonic()
        if timeout is not None:
            # The process was stopped, or got no CPU time.
            self.delays.add(turn_at, turn_at - waits_from - timeout)
        self.delays.begin_turn(turn_at)
        self._process_events(events)
        self._schedule_tasks()
        ready = self._ready
        # Those that become ready meanwhile run after the next look at the sockets.
        for _ in range(len(ready)):
            task = ready.popleft()
            if task.state not in _ENDED:
                self._step(task)
        self._current = None
        self.delays.end_turn(time.monotonic())

    def _step(self, task: Task) -> None:
        """Runs a task until it waits, or ends. What it raised is of no use here: `spawn` has kept it."""
        self._current = task
        task.state = TaskState.RUNNING
        try:
            event = task()
        except BaseException:  # noqa: BLE001 - no task may stop the loop
            self._task_done(task)
            return
        if task.state is TaskState.CANCELLED:
            self._pending_tasks.discard(task)
            task.close()
        elif isinstance(event, KernelEvent):
            try:
                getattr(self, event.method)(*event.args)
            except Exception as problem:  # noqa: BLE001 - it is raised in the task that has caused it
                task.inject_exc(problem)
                self._add_ready_task(task)
        else:
            assert isinstance(event, Future)
            task.state = TaskState.WAIT_FUTURE
            event.add_both(lambda _: self.call_soon(task))

    def _process_events(self, event_list: Any) -> None:
        for key, events in event_list:
            known = key.data
            if not isinstance(known, _Registration):
                super()._process_events([(key, events)])
                continue
            if events & selectors.EVENT_WRITE and known.writer is not None:
                self._wake(known.writer)
            if events & selectors.EVENT_READ:
                reader, known.reader = known.reader, None
                if reader is None or not self._wake(reader):
                    # No task reads this socket: without this, epoll would report it at once again and again.
                    self._narrow(known, selectors.EVENT_READ)

    def _wake(self, task: Task) -> bool:
        if task.is_done:
            return False
        self._add_ready_task(task)
        return True

    def _narrow(self, known: _Registration, event: int) -> None:
        """Stops waiting for an event of a socket."""
        if not known.events & event:
            return
        known.events &= ~event
        if known.events:
            self._selector.modify(known.descriptor, known.events, known)
        else:
            self._drop(known)

    def _drop(self, known: _Registration) -> None:
        del self._registrations[known.descriptor]
        self._selector.unregister(known.descriptor)


def _as_task(task: Any) -> Task:
    if isinstance(task, Task):
        return task
    if type(task) is MethodType or type(task) is FunctionType:
        function = task.__func__ if type(task) is MethodType else task
        if type(function) is FunctionType and not function.__code__.co_flags & _COROUTINES:
            return _FunctionTask(task)
    return Task(task)


def _is_due(when: float, task: Task) -> bool:
    """Whether the timer was neither cancelled nor set to another time."""
    return task.scheduled_at == when and task.state is TaskState.SCHEDULED
