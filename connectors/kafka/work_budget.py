"""The CPU time that one cluster's responses of a kind may take: in a worker thread, half of the time at most.

Large responses are decoded and redacted in Python, which takes up to some seconds for 8 MiB. In the event loop that
would hold up every other cluster. In a worker thread the interpreter lets the event loop run every few milliseconds,
and the pauses between the pieces bound what a cluster takes that always answers at once with all that it may send.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from connectors.kafka.event_loop import EventLoop, TypedFuture

T = TypeVar("T")
SHARE: Final = 0.5
"""Of the time, at most."""
INLINE_BYTES: Final = 32 * 1024
"""Less is worked on in the event loop: it takes at most some milliseconds."""


class WorkBudget:
    """Runs one cluster's work of one kind, such as reading its log: one piece at a time."""

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
        if size < INLINE_BYTES:
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
            return await self._loop.compute(work)
        finally:
            ended = self._loop.now()
            self._not_before = ended + (ended - started) * (1 - SHARE) / SHARE


_FOREVER_S: Final = 86_400.0
