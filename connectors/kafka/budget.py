"""How much one cluster is asked: every request counted, and a hard ceiling.

A quorum must not notice that it is watched, least of all while it struggles. The ceiling is a token bucket whose
rate and burst together cannot pass `CEILING` in any second; login and ApiVersions requests are counted too.
"""

import time
from collections import deque
from collections.abc import Callable

from connectors.kafka.loop import Loop

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

    async def turn(self, loop: Loop) -> None:
        """Wait until one more request is within the ceiling."""
        while (wait := self.wait_s()) > 0:
            await loop.sleep(wait)

    def wait_s(self) -> float:
        """Seconds until one more request is within the ceiling; 0 = now."""
        self._refill()
        return max(0.0, (1 - self._tokens) / _RATE)

    def spend(self) -> None:
        """One request goes out. Those of a connection's setup cannot wait: they may leave a debt."""
        self._refill()
        self._tokens -= 1
        self.requests_sent += 1
        self._newest.append(self._at)
        while self._newest[0] <= self._at - 1.0:
            self._newest.popleft()
        self.busiest_second = max(self.busiest_second, len(self._newest))

    def _refill(self) -> None:
        now = self._clock()
        self._tokens = min(_BURST, self._tokens + (now - self._at) * _RATE)
        self._at = now
