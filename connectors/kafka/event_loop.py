"""The gatherer's event loop: asyncio's, or uvloop's where it is installed, with a thread pool and fair time limits.

One loop in one thread serves all clusters. Blocking work (name resolution) runs in a thread pool; coroutines await its
result.

A loop that has much to do, or a process that got no CPU time, reads an answer long after it arrived, and no node is to
blame for it: a time limit for an answer that ends late is extended by the delay, at most by MOST_S altogether.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, TypeVar

T = TypeVar("T")
_LOG = logging.getLogger(__name__)
MOST_S: Final = 5.0
"""The most by which one time limit is extended."""
_IN_TIME_S: Final = 0.02
"""By so much any timer may be late."""
_WORKERS = 4
"""Threads that read large batches: they share one interpreter with the loop, so more would only slow it down."""
_INLINE_BYTES: Final = 32 * 1024
"""Less is worked on in the event loop: it takes at most some milliseconds."""
_END_S: Final = 1.0
"""How long `close` waits for what the cancelled coroutines still do."""


def extension_s(*, late_s: float, left_s: float) -> float:
    """Returns by how much a time limit that ended `late_s` ago is extended, at most `left_s`; 0 if it ended in time."""
    return 0.0 if late_s < _IN_TIME_S else min(late_s, left_s)


class EventLoop:
    """One event loop. Only `call_soon` and `stop` are thread-safe."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """`loop`: asyncio's loop; None: a new one."""
        self.asyncio = loop or _new_loop()
        self.asyncio.set_exception_handler(_log_fault)
        self.lookups = ThreadPoolExecutor(max_workers=256, thread_name_prefix="resolve")
        """A name whose name servers do not answer occupies a thread for seconds: other clusters need more threads."""
        self.workers = ThreadPoolExecutor(max_workers=_WORKERS, thread_name_prefix="decode")
        """For work that needs the CPU. Name lookups do not wait for it."""
        self._stopped = self.asyncio.create_future()
        self._spawned: set[asyncio.Task[Any]] = set()
        """asyncio itself keeps no reference to a task."""
        self.ending = False
        """True once `stop` or `close` was called: failures from then on are caused by the shutdown."""

    def now(self) -> float:
        """Returns the monotonic clock in seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Suspends the current coroutine for this long."""
        await asyncio.sleep(max(0.0, seconds))

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts a coroutine; the returned task holds its result or exception. Nobody needs to await it."""
        task = self.asyncio.create_task(coroutine)
        self._spawned.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._spawned.discard(task)
        if not task.cancelled():
            task.exception()  # else asyncio would log it, with what it holds

    async def gather(self, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Runs the coroutines concurrently and returns their results in order."""
        return await asyncio.gather(*map(self.spawn, coroutines))

    async def wait_for(self, task: asyncio.Task[T], seconds: float) -> T:
        """Returns a task's result, or raises TimeoutError after this long; the task is not cancelled."""
        await self.wait_until(task.done, (task,), seconds)
        if not task.done():
            raise TimeoutError
        return task.result()

    async def wait_until(
        self, condition: Callable[[], bool], futures: Iterable[asyncio.Future[Any]], seconds: float
    ) -> None:
        """Returns once `condition` is true, evaluated whenever one of the futures is done, or after this long.

        A loop that is late waits longer, by up to MOST_S. The condition is true once all futures are done.
        """
        due, left_s = self.now() + seconds, MOST_S
        while not condition():
            pending = [future for future in futures if not future.done()]
            late_s = self.now() - due
            if late_s >= 0:
                longer_s = extension_s(late_s=late_s, left_s=left_s)
                if not longer_s:
                    return
                due, left_s = due + late_s + longer_s, left_s - longer_s
            await asyncio.wait(pending, timeout=due - self.now(), return_when=asyncio.FIRST_COMPLETED)

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
        done: asyncio.Future[T] = self.asyncio.create_future()

        def settle(result: T | None, problem: Exception | None) -> None:
            if done.done():
                return  # the coroutine that waited was cancelled
            if problem is not None:
                done.set_exception(problem)
            else:
                done.set_result(result)  # type: ignore[arg-type]

        def run() -> None:
            try:
                result = work()
            except Exception as problem:  # noqa: BLE001 - re-raised in the coroutine that waits
                failure = problem
                self.call_soon(lambda: settle(None, failure))
            else:
                self.call_soon(lambda: settle(result, None))

        start(run)
        return await done

    def call_soon(self, work: Callable[[], object]) -> None:
        """Runs a function in the loop. Thread-safe."""
        # RuntimeError: the loop is closed, and with it every coroutine that waits.
        with suppress(RuntimeError):
            self.asyncio.call_soon_threadsafe(work)

    def call_later(self, seconds: float, work: Callable[[], object]) -> asyncio.TimerHandle:
        """Runs a function in the loop after so many seconds, unless the returned timer is cancelled."""
        return self.asyncio.call_later(max(0.0, seconds), work)

    def run(self, main: Callable[[], Awaitable[T]]) -> T:
        """Runs the loop until `main` returns, and returns its result."""

        async def run() -> T:
            return await main()

        return self.asyncio.run_until_complete(run())

    async def wait_stopped(self) -> None:
        """Returns once `stop` was called."""
        await self._stopped

    def stop(self) -> None:
        """Makes `wait_stopped` return. Thread-safe."""

        def settle() -> None:
            if not self._stopped.done():
                self._stopped.set_result(None)

        self.ending = True
        self.call_soon(settle)

    def close(self) -> None:
        """Cancels the running coroutines and closes the loop's sockets."""
        self.ending = True
        self.asyncio.run_until_complete(self._end())
        self.asyncio.close()
        for pool in (self.lookups, self.workers):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _end(self) -> None:
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=_END_S)
        # A transport closes its socket in the turn after it was aborted.
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        loop: asyncio.AbstractEventLoop = import_module("uvloop").new_event_loop()
    except ImportError:
        return asyncio.new_event_loop()
    return loop


def _log_fault(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs what a callback raised without its text, which may hold a secret."""
    _LOG.error("the event loop: %s", type(context.get("exception")).__name__)
