"""A sleep between two polls that another coroutine can interrupt."""

from connectors.kafka.event_loop import EventLoop
from connectors.kafka.kafka_python import Future


class InterruptibleSleep:
    """The sleep of one coroutine. Call `interrupt_in` in the loop's thread; a call before the sleep counts."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._interrupt_at: float | None = None
        self._waiter: Future | None = None

    def interrupt_in(self, seconds: float) -> None:
        """Ends the sleep after this many seconds; the earliest of several calls counts."""
        at = self._loop.now() + max(0.0, seconds)
        if self._interrupt_at is None or at < self._interrupt_at:
            self._interrupt_at = at
            if self._waiter is not None and not self._waiter.is_done:
                self._waiter.success(None)

    async def sleep_until(self, due: float) -> bool:
        """Sleeps until `due` (the loop's clock); returns True if the sleep was interrupted."""
        while True:
            now = self._loop.now()
            if self._interrupt_at is not None and self._interrupt_at <= now:
                self._interrupt_at = None
                return True
            if now >= due:
                return False
            end = due if self._interrupt_at is None else min(due, self._interrupt_at)
            await self._wait(end - now)

    async def _wait(self, seconds: float) -> None:
        waiter = self._waiter = Future()
        timer = self._loop.net.call_later(seconds, lambda: None if waiter.is_done else waiter.success(None))
        await waiter
        self._loop.net.cancel(timer)
