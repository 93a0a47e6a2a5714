"""When a cluster's nodes are contacted: at most so many requests a second, and none for a while after a failure.

Monitoring must not load a quorum, especially while the quorum has problems. The limit is a token bucket: rate and
burst together cannot exceed `MAX_REQUESTS_PER_SECOND` in any second. ApiVersions and login count as requests: a
connection acquires one token before its first request, and two to four more before it logs in.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from connectors.errors import ObservationError
from connectors.kafka.event_loop import EventLoop
from rules.model.monitoring import Reason

MAX_REQUESTS_PER_SECOND = 20
"""In any one second, over all connections of one cluster."""
_RATE = 12.0
_BURST = MAX_REQUESTS_PER_SECOND - _RATE
MAX_ADDRESSES: Final = 1_000
"""A node that reports other addresses in each answer must not fill the memory: the oldest failure is forgotten."""
WRONG_PROTOCOL_S: Final = 300.0
"""A node that uses another protocol is contacted again only after this time: only a changed configuration helps, and a
TLS handshake may cost a plaintext listener 369 MB."""
_PERSISTENT: Final = frozenset({Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED})


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


@dataclass(frozen=True, slots=True)
class _Backoff:
    failures: int
    until: float
    problem: ObservationError


class AddressBackoff:
    """The failed addresses of one cluster."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns monotonic seconds."""
        self._clock = clock
        self._failed: dict[tuple[str, int], _Backoff] = {}

    def problem(self, address: tuple[str, int]) -> ObservationError | None:
        """Returns the newest failure while the address is backed off."""
        backoff = self._failed.get(address)
        if backoff is None or backoff.until <= self._clock():
            return None
        return backoff.problem.copy()

    def fail(self, address: tuple[str, int], problem: ObservationError) -> None:
        """Notes a failure; each one in a row doubles the time, up to a limit."""
        before = self._failed.pop(address, None)
        failures = 1 if before is None else before.failures + 1
        first_s, max_s = _pauses_s(problem.reason)
        delay = min(max_s, first_s * 2 ** min(failures - 1, 10))
        self._failed[address] = _Backoff(failures, self._clock() + delay, problem.copy())
        if len(self._failed) > MAX_ADDRESSES:
            del self._failed[next(iter(self._failed))]

    def newest(self, address: tuple[str, int]) -> ObservationError | None:
        """Returns the newest failure since the address last answered, also after its time."""
        backoff = self._failed.get(address)
        return None if backoff is None else backoff.problem

    def succeed(self, address: tuple[str, int]) -> None:
        """Forgets the failures of an address that answered."""
        self._failed.pop(address, None)


def _pauses_s(reason: Reason) -> tuple[float, float]:
    """Returns the pause after a first failure, and the longest one."""
    if reason is Reason.WRONG_PROTOCOL:
        return WRONG_PROTOCOL_S, WRONG_PROTOCOL_S
    # A rejected login is retried less often: it may lock the account, and a controller logs a stack trace for it.
    return (1.0, 5.0) if reason in _PERSISTENT else (0.2, 1.0)
