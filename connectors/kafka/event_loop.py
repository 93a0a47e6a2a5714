"""The gatherer's event loop: kafka-python's own (`kafka.net.selector`), with types, threads and bounded waits.

One loop, one thread, all clusters. What would block (name resolution) goes to a small pool of threads and comes
back as an awaitable.
"""

import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from connectors.kafka.kafka_python import Future, NetworkSelector

T = TypeVar("T")


class Outcome(Generic[T]):
    """What a spawned coroutine came to: await it, or ask whether it is there."""

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
        """The result of one that succeeded."""
        result: T = self.future.value
        return result

    async def get(self) -> T:
        """Its result.

        Raises:
            BaseException: what the coroutine raised.
        """
        result: T = await self.future
        return result


class Loop:
    """One event loop. Not thread-safe but for `soon` and `stop`."""

    def __init__(self, *, threads: int = 64) -> None:
        """`threads` at most, started when needed: each name of a zone whose servers are silent holds one for seconds,
        and must not hold up the names of other clusters.
        """
        self.net = NetworkSelector(slow_task_threshold_secs=0)
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="resolve")
        self._stopped = Future()
        self.ending = False
        """True from `stop` on: what breaks now breaks because we go."""

    def now(self) -> float:
        """Seconds of a clock that never goes back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Let others run for this long."""
        await self.net.sleep(max(0.0, seconds))

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Outcome[T]:
        """Start a coroutine; what it raises waits in the outcome."""
        future = Future()

        async def run() -> None:
            try:
                future.success(await coroutine)
            except BaseException as problem:  # noqa: BLE001 - it is handed on, whole, to whoever asks for the outcome
                future.failure(problem)

        self.net.call_soon(run)
        return Outcome(future)

    async def gather(self, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Run them side by side; results in their order."""
        outcomes = [self.spawn(one) for one in coroutines]
        return [await outcome.get() for outcome in outcomes]

    async def within(self, outcome: Outcome[T], seconds: float) -> T:
        """Await an outcome, but no longer than this.

        Raises:
            TimeoutError: it was not done by then; it is not cancelled.
        """
        await self.until(lambda: outcome.done, (outcome,), seconds)
        if not outcome.done:
            raise TimeoutError
        return await outcome.get()

    async def until(self, enough: Callable[[], bool], outcomes: Iterable[Outcome[Any]], seconds: float) -> None:
        """Return as soon as `enough` holds, looked at whenever one of the outcomes is there, or after this long."""
        waiter = Future()

        def look(_: object) -> None:
            if not waiter.is_done and enough():
                waiter.success(None)

        def give_up() -> None:
            if not waiter.is_done:
                waiter.success(None)

        for outcome in outcomes:
            outcome.future.add_both(look)
        look(None)
        timer = self.net.call_later(seconds, give_up)
        await waiter
        self.net.cancel(timer)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run blocking work in the pool.

        Raises:
            Exception: what the work raised.
        """
        done = Future()

        def run() -> None:
            try:
                result = work()
            except Exception as problem:  # noqa: BLE001 - handed to the coroutine that waits
                failure = problem
                self.soon(lambda: done.failure(failure))
            else:
                self.soon(lambda: done.success(result))

        self._pool.submit(run)
        value: T = await done
        return value

    def soon(self, work: Callable[[], object]) -> None:
        """From any thread: run this in the loop."""

        def call() -> None:
            work()

        try:
            self.net.call_soon_threadsafe(call)
        except RuntimeError:
            return  # closed: whoever waited is gone too

    def run(self, main: Callable[[], Awaitable[T]]) -> T:
        """Drive the loop until `main` is done."""
        result: T = self.net.run(main)
        return result

    async def until_stopped(self) -> None:
        """Return when `stop` was called."""
        await self._stopped

    def stop(self) -> None:
        """From any thread: let `until_stopped` return."""

        def settle() -> None:
            if not self._stopped.is_done:
                self._stopped.success(None)

        self.ending = True
        self.soon(settle)

    def close(self) -> None:
        """Cancel what runs and give the sockets back."""
        self.ending = True
        self.net.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
