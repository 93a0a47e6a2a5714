"""The gatherer's event loop: kafka-python's loop (`kafka.net.selector`) with types, a thread pool and timeouts.

One loop in one thread serves all clusters. Blocking work (name resolution) runs in a thread pool; coroutines await its
result.

A loop that has much to do, or a process that got no CPU time, reads an answer long after it arrived, and no node is to
blame for it: a time limit for an answer that ends late is extended by the delay, at most by MOST_S altogether.
"""

import heapq
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Generic, TypeVar

from kafka.future import Future
from kafka.net.selector import NetworkSelector, Task, TaskState

T = TypeVar("T")
MOST_S: Final = 5.0
"""The most by which one time limit is extended."""
_IN_TIME_S: Final = 0.02
"""By so much any timer may be late."""
_WORKERS = 4
"""Threads that read large batches: they share one interpreter with the loop, so more would only slow it down."""
_INLINE_BYTES: Final = 32 * 1024
"""Less is worked on in the event loop: it takes at most some milliseconds."""


def extension_s(*, late_s: float, left_s: float) -> float:
    """Returns by how much a time limit that ended `late_s` ago is extended, at most `left_s`; 0 if it ended in time."""
    return 0.0 if late_s < _IN_TIME_S else min(late_s, left_s)


class TimerLoop(NetworkSelector):  # type: ignore[misc]
    """kafka-python's event loop. A cancelled timer is skipped when it is due.

    kafka-python 3.0.12 removes it from the heap and sorts the heap again, although nearly every request's timer is
    cancelled.
    """

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


class TypedFuture(Future, Generic[T]):  # type: ignore[misc]
    """kafka-python's future, with the type of its result: what a spawned coroutine returns, now or later."""

    value: T
    """The result. Valid only if `succeeded()`."""
    is_done: bool
    """True once it has a result or an exception."""

    def __await__(self) -> Generator[Any, Any, T]:
        """Waits for the result and returns it, or raises what the coroutine raised."""
        result: T = yield from super().__await__()
        return result


class EventLoop:
    """One event loop. Only `call_soon` and `stop` are thread-safe."""

    def __init__(self) -> None:
        self.net = TimerLoop()
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

    async def sleep(self, seconds: float) -> None:
        """Suspends the current coroutine for this long."""
        await self.net.sleep(max(0.0, seconds))

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> TypedFuture[T]:
        """Starts a coroutine; the returned future holds its result or exception."""
        future = TypedFuture[T]()

        async def run() -> None:
            try:
                future.success(await coroutine)
            except BaseException as problem:  # noqa: BLE001 - it is re-raised where the future is awaited
                future.failure(problem)

        self.net.call_soon(run)
        return future

    async def gather(self, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Runs the coroutines concurrently and returns their results in order."""
        futures = [self.spawn(one) for one in coroutines]
        return [await future for future in futures]

    async def wait_for(self, future: TypedFuture[T], seconds: float) -> T:
        """Returns a future's result, or raises TimeoutError after this long; the future is not cancelled."""
        await self.wait_until(lambda: future.is_done, (future,), seconds)
        if not future.is_done:
            raise TimeoutError
        return await future

    async def wait_until(
        self, condition: Callable[[], bool], futures: Iterable[TypedFuture[Any]], seconds: float
    ) -> None:
        """Returns once `condition` is true, evaluated whenever one of the futures is done, or after this long.

        A loop that is late waits longer, by up to MOST_S.
        """
        waiter = Future()
        timer: Any = None

        def check(_: object) -> None:
            if not waiter.is_done and condition():
                waiter.success(None)

        def give_up_in(seconds: float, left_s: float) -> None:
            nonlocal timer
            due = self.now() + seconds
            timer = self.net.call_later(seconds, lambda: give_up(due, left_s))

        def give_up(due: float, left_s: float) -> None:
            if waiter.is_done:
                return
            longer_s = extension_s(late_s=self.now() - due, left_s=left_s)
            if longer_s:
                give_up_in(longer_s, left_s - longer_s)
            else:
                waiter.success(None)

        for future in futures:
            future.add_both(check)
        check(None)
        give_up_in(seconds, MOST_S)
        await waiter
        self.net.cancel(timer)

    async def work_on(self, size: int, work: Callable[[], T]) -> T:
        """Returns the result of pure work on so many bytes: in the loop if they are few, otherwise in a worker thread.

        8 MiB of small records take some seconds. In a thread the interpreter lets the event loop run every few
        milliseconds, and as long a pause afterwards leaves half of the time to the other clusters.
        """
        if size < _INLINE_BYTES:
            return work()
        started = self.now()
        try:
            return await self.run_in(self.workers.submit, work)
        finally:
            await self.sleep(self.now() - started)

    async def run_in(self, start: Callable[[Callable[[], None]], object], work: Callable[[], T]) -> T:
        """Runs blocking work in a thread that `start` starts or chooses; returns its result, or raises its error."""
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
