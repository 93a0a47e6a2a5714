"""How much one cluster is asked: every request counted, and a hard ceiling.

A quorum must not notice that it is watched, least of all while it struggles. The ceiling is a token bucket whose
rate and burst together cannot pass `CEILING` in any second. ApiVersions and login are requests too: a connection
takes a place before its first word, and two or three more before it logs in.
"""

import time
from collections import deque
from collections.abc import Callable

from connectors.kafka.event_loop import Loop

CEILING = 20
"""Requests in any one second, all connections of one cluster together."""
_RATE = 12.0
_BURST = CEILING - _RATE


class Budget:
    """The requests of one cluster."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens = _BURST
        self._at = clock()
        self._newest: deque[float] = deque()
        self.requests_sent = 0
        """Since the start, ApiVersions and login included."""
        self.busiest_second = 0
        """The most requests that went out within one second."""

    async def take(self, loop: Loop, places: int = 1) -> None:
        """Wait until so many requests are within the ceiling, and take their places."""
        while (wait := self.try_take(places)) > 0:
            await loop.sleep(wait)

    def try_take(self, places: int = 1) -> float:
        """Take the places, if they are there: then 0, else the seconds until they can be."""
        assert places <= _BURST
        now = self._clock()
        self._tokens = min(_BURST, self._tokens + (now - self._at) * _RATE)
        self._at = now
        missing = places - self._tokens
        # What is less than a millionth of a place is rounding.
        if missing > 1e-6:
            return missing / _RATE
        self._tokens -= places
        return 0.0

    def count(self) -> None:
        """One request goes out."""
        now = self._clock()
        self.requests_sent += 1
        self._newest.append(now)
        while self._newest[0] <= now - 1.0:
            self._newest.popleft()
        self.busiest_second = max(self.busiest_second, len(self._newest))
