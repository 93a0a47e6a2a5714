"""The gatherer's event loop: kafka-python's loop (`kafka.net.selector`) with types, a thread pool and timeouts.

One loop in one thread serves all clusters. Blocking work (name resolution) runs in a thread pool; coroutines await its
result.

Time limits do not count the time in which the loop did not look at its sockets: no node is to blame for it. A loop that
has much to do, or a process that got no CPU time, reads an answer long after it arrived. A time limit for an answer
that ends meanwhile is extended by this time, at most by MOST_S.
"""

import heapq
import selectors
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Generic, TypeVar

from kafka.future import Future
from kafka.net.selector import NetworkSelector, Task, TaskState

T = TypeVar("T")
MOST_S: Final = 5.0
"""The most by which one time limit is extended."""
_ORDINARY_S: Final = 0.02
"""A turn of this length delays nothing."""
_WORKERS = 4
"""Threads that decode large responses: they share one interpreter with the loop, so more would only slow it down."""
_WORK_SHARE: Final = 0.5
"""Of the time, at most, for one cluster's work of a kind."""
_INLINE_BYTES: Final = 32 * 1024
"""Less is worked on in the event loop: it takes at most some milliseconds."""
_FOREVER_S: Final = 86_400.0


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


class TypedFuture(Generic[T]):
    """The result of a spawned coroutine, now or later."""

    def __init__(self, future: Any) -> None:
        self.future = future

    @property
    def done(self) -> bool:
        """True once it has a result or an exception."""
        return bool(self.future.is_done)

    @property
    def succeeded(self) -> bool:
        """True once it has a result."""
        return bool(self.future.succeeded())

    @property
    def value(self) -> T:
        """The result. Valid only if `succeeded`."""
        result: T = self.future.value
        return result

    async def get(self) -> T:
        """Waits for the result and returns it.

        Raises:
            BaseException: what the coroutine raised.
        """
        result: T = await self.future
        return result


class EventLoop:
    """One event loop. Only `call_soon` and `stop` are thread-safe."""

    def __init__(self) -> None:
        self.net = MeasuredLoop()
        self.lookups = ThreadPoolExecutor(max_workers=256, thread_name_prefix="resolve")
        """A name whose name servers do not answer occupies a thread for seconds: other clusters need more threads."""
        self.workers = ThreadPoolExecutor(max_workers=_WORKERS, thread_name_prefix="decode")
        """For work that needs the CPU. Name lookups do not wait for it."""
        self._stopped = Future()
        self.ending = False
        """True once `stop` or `close` was called: failures from then on are caused by the shutdown."""

    def now(self) -> float:
        """Returns the monotonic clock in seconds."""
        return time.monotonic()

    def delay_s(self) -> float:
        """Returns for how many seconds the loop has not looked at its sockets so far."""
        return self.net.delay_s()

    async def sleep(self, seconds: float) -> None:
        """Suspends the current coroutine for this long."""
        await self.net.sleep(max(0.0, seconds))

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> TypedFuture[T]:
        """Starts a coroutine; the returned future holds its result or exception."""
        future = Future()

        async def run() -> None:
            try:
                future.success(await coroutine)
            except BaseException as problem:  # noqa: BLE001 - it is re-raised where the future is awaited
                future.failure(problem)

        self.net.call_soon(run)
        return TypedFuture(future)

    async def gather(self, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Runs the coroutines concurrently and returns their results in order."""
        futures = [self.spawn(one) for one in coroutines]
        return [await future.get() for future in futures]

    async def wait_for(self, future: TypedFuture[T], seconds: float) -> T:
        """Waits for a future, at most this long, and returns its result.

        Raises:
            TimeoutError: the future was not done in time; it is not cancelled.
        """
        await self.wait_until(lambda: future.done, (future,), seconds)
        if not future.done:
            raise TimeoutError
        return await future.get()

    async def wait_until(
        self, condition: Callable[[], bool], futures: Iterable[TypedFuture[Any]], seconds: float
    ) -> None:
        """Returns once `condition` is true, evaluated whenever one of the futures is done, or after this long.

        The time in which the loop did not look at its sockets does not count.
        """
        waiter = Future()
        limit = TimeLimit(self.net)

        def check(_: object) -> None:
            if not waiter.is_done and condition():
                waiter.success(None)

        def give_up() -> None:
            if waiter.is_done:
                return
            extension_s = limit.extension_s()
            if extension_s:
                timers.append(self.net.call_later(extension_s, give_up))
            else:
                waiter.success(None)

        for future in futures:
            future.future.add_both(check)
        check(None)
        timers = [self.net.call_later(seconds, give_up)]
        await waiter
        self.net.cancel(timers[-1])

    async def run_in(self, start: Callable[[Callable[[], None]], object], work: Callable[[], T]) -> T:
        """Runs blocking work in a thread that `start` starts or chooses, and returns its result.

        Raises:
            Exception: what the work raised.
        """
        done = Future()

        def run() -> None:
            try:
                result = work()
            except Exception as problem:  # noqa: BLE001 - re-raised in the coroutine that waits
                failure = problem
                self.call_soon(lambda: done.failure(failure))
            else:
                self.call_soon(lambda: done.success(result))

        start(run)
        value: T = await done
        return value

    def call_soon(self, work: Callable[[], object]) -> None:
        """Runs a function in the loop. Thread-safe."""

        def call() -> None:
            work()

        try:
            self.net.call_soon_threadsafe(call)
        except RuntimeError:
            return  # the loop is closed, and with it every coroutine that waits

    def run(self, main: Callable[[], Awaitable[T]]) -> T:
        """Runs the loop until `main` returns, and returns its result."""
        result: T = self.net.run(main)
        return result

    async def wait_stopped(self) -> None:
        """Returns once `stop` was called."""
        await self._stopped

    def stop(self) -> None:
        """Makes `wait_stopped` return. Thread-safe."""

        def settle() -> None:
            if not self._stopped.is_done:
                self._stopped.success(None)

        self.ending = True
        self.call_soon(settle)

    def close(self) -> None:
        """Cancels the running coroutines and closes the loop's sockets."""
        self.ending = True
        self.net.close()
        for pool in (self.lookups, self.workers):
            pool.shutdown(wait=False, cancel_futures=True)


class WorkBudget:
    """Runs one cluster's work of one kind, such as reading its log: one piece at a time, half of the time at most.

    Large responses are decoded and redacted in Python, which takes up to some seconds for 8 MiB. In the event loop that
    would hold up every other cluster. In a worker thread the interpreter lets the event loop run every few
    milliseconds, and the pauses between the pieces bound what a cluster takes that always answers at once with all that
    it may send.
    """

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._last: TypedFuture[Any] | None = None
        self._not_before = 0.0

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """Runs `work` and returns its result: in the loop if `size` is small, otherwise in a worker thread.

        Args:
            size: bytes to work on.
            work: pure, or touching nothing that the loop's thread uses meanwhile.

        Raises:
            Exception: what the work raised.
        """
        if size < _INLINE_BYTES:
            return work()
        previous = self._last
        own = self._loop.spawn(self._after(previous, work))
        self._last = own
        return await own.get()

    async def _after(self, previous: TypedFuture[Any] | None, work: Callable[[], T]) -> T:
        if previous is not None and not previous.done:
            await self._loop.wait_until(lambda: previous.done, (previous,), _FOREVER_S)
        await self._loop.sleep(self._not_before - self._loop.now())
        started = self._loop.now()
        try:
            return await self._loop.run_in(self._loop.workers.submit, work)
        finally:
            ended = self._loop.now()
            self._not_before = ended + (ended - started) * (1 - _WORK_SHARE) / _WORK_SHARE
