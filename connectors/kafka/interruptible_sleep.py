"""A rest between two looks that somebody may cut short."""

from connectors.kafka.event_loop import Loop
from connectors.kafka.kafka_python import Future


class Rest:
    """One sleeper's rest. `cut` may come at any time, from the loop's own thread; one that comes early is kept."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._cut_at: float | None = None
        self._waiter: Future | None = None

    def cut(self, seconds: float) -> None:
        """End the rest so many seconds from now; the earliest of several wishes counts."""
        at = self._loop.now() + max(0.0, seconds)
        if self._cut_at is None or at < self._cut_at:
            self._cut_at = at
            if self._waiter is not None and not self._waiter.is_done:
                self._waiter.success(None)

    async def until(self, due: float) -> bool:
        """Rest until `due` (the loop's clock); True when it was cut short."""
        while True:
            now = self._loop.now()
            if self._cut_at is not None and self._cut_at <= now:
                self._cut_at = None
                return True
            if now >= due:
                return False
            end = due if self._cut_at is None else min(due, self._cut_at)
            await self._woken_or(end - now)

    async def _woken_or(self, seconds: float) -> None:
        waiter = self._waiter = Future()
        timer = self._loop.net.call_later(seconds, lambda: None if waiter.is_done else waiter.success(None))
        await waiter
        self._loop.net.cancel(timer)
