"""Limits and counts the requests to one cluster.

Monitoring must not load a quorum, especially while the quorum has problems. The limiter is a token bucket: rate and
burst together cannot exceed `MAX_REQUESTS_PER_SECOND` in any second. ApiVersions and login count as requests: a
connection acquires one token before its first request, and two or three more before it logs in.
"""

import time
from collections import deque
from collections.abc import Callable

from connectors.kafka.event_loop import EventLoop

MAX_REQUESTS_PER_SECOND = 20
"""In any one second, over all connections of one cluster."""
_RATE = 12.0
_BURST = MAX_REQUESTS_PER_SECOND - _RATE


class RateLimiter:
    """The request limit of one cluster."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens = _BURST
        self._updated_at = clock()
        self._last_second: deque[float] = deque()
        self.requests_sent = 0
        """Since the start, including ApiVersions and login."""
        self.busiest_second = 0
        """The highest number of requests sent within one second."""

    async def acquire(self, loop: EventLoop, tokens: int = 1) -> None:
        """Waits until `tokens` tokens are available, and takes them."""
        while (wait := self.try_acquire(tokens)) > 0:
            await loop.sleep(wait)

    def try_acquire(self, tokens: int = 1) -> float:
        """Takes the tokens and returns 0; returns the seconds to wait if they are not available yet."""
        assert tokens <= _BURST
        now = self._clock()
        self._tokens = min(_BURST, self._tokens + (now - self._updated_at) * _RATE)
        self._updated_at = now
        missing = tokens - self._tokens
        # Less than a millionth of a token is a rounding error.
        if missing > 1e-6:
            return missing / _RATE
        self._tokens -= tokens
        return 0.0

    def count_request(self) -> None:
        """Counts one sent request."""
        now = self._clock()
        self.requests_sent += 1
        self._last_second.append(now)
        while self._last_second[0] <= now - 1.0:
            self._last_second.popleft()
        self.busiest_second = max(self.busiest_second, len(self._last_second))
