"""A loop of asyncio whose clock jumps to the next timer, for tests without sockets."""

import asyncio
import selectors
from typing import Any


class SimulatedTimeSelector(selectors.DefaultSelector):
    """Waits for nothing: its time jumps to the end of the wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1_000.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "every coroutine waits and no timer is pending"
            # Slightly more than the timeout, so that rounding does not leave a timer just short of due.
            self.now_s += timeout + 1e-9
        return ready


class SimulatedTimeLoop(asyncio.SelectorEventLoop):
    """asyncio's loop with simulated time."""

    def __init__(self) -> None:
        self.simulated = SimulatedTimeSelector()
        super().__init__(self.simulated)

    def time(self) -> float:
        return self.simulated.now_s
