"""How long an address is not contacted after a failure, and the failure that is reported meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from connectors.errors import ObservationError
from rules.model.monitoring import Reason

MAX_ADDRESSES: Final = 1_000
"""A node that reports other addresses in each answer must not fill the memory: the oldest failure is forgotten."""
_PERSISTENT: Final = frozenset({Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED})


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

    def __len__(self) -> int:
        return len(self._failed)

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
        # A rejected login is retried less often: it may lock the account, and a controller logs a stack trace for it.
        first_s, max_s = (1.0, 5.0) if problem.reason in _PERSISTENT else (0.2, 1.0)
        delay = min(max_s, first_s * 2 ** min(failures - 1, 10))
        self._failed[address] = _Backoff(failures, self._clock() + delay, problem.copy())
        if len(self._failed) > MAX_ADDRESSES:
            del self._failed[next(iter(self._failed))]

    def succeed(self, address: tuple[str, int]) -> None:
        """Forgets the failures of an address that answered."""
        self._failed.pop(address, None)
