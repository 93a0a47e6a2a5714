"""RetrySchedule: when a sink that failed is called again."""

from rules.model.identifiers import Millis

_FIRST_DELAY_MS = 1_000
_MAX_DELAY_MS = 60_000
_NEW_DELAY_MS = 5_000
_MAX_RETRY_AFTER_MS = 900_000
"""A longer Retry-After is cut to this: sending an alert too early is better than sending it hours late."""


class RetrySchedule:
    """Delays of 1, 2, 4 … 60 s after failures in a row, or what the service asked for (Retry-After)."""

    def __init__(self) -> None:
        """No failure yet: a call is due."""
        self._delay_ms = 0
        self._requested_ms = 0
        self._failed_at_ms = 0

    @property
    def failing(self) -> bool:
        """Whether the last call failed."""
        return self._delay_ms > 0

    def due(self, now_ms: Millis) -> bool:
        """Returns whether the sink may be called."""
        # A wall clock that was set back must not prolong the delay.
        return not 0 <= now_ms - self._failed_at_ms < self._delay_ms

    def due_for_new(self, now_ms: Millis) -> bool:
        """Returns whether the sink may be called with what it was not sent yet: the failure may concern the rest."""
        delay_ms = min(self._delay_ms, max(_NEW_DELAY_MS, self._requested_ms))
        return not 0 <= now_ms - self._failed_at_ms < delay_ms

    def succeeded(self) -> None:
        """Ends the delay."""
        self._delay_ms = 0

    def failed(self, retry_after_s: float, now_ms: Millis) -> float:
        """Starts the next delay and returns it in seconds.

        Args:
            retry_after_s: what the service asked for; 0 for nothing.
            now_ms: the wall clock.
        """
        self._requested_ms = min(round(retry_after_s * 1000), _MAX_RETRY_AFTER_MS)
        doubled_ms = min(max(_FIRST_DELAY_MS, 2 * self._delay_ms), _MAX_DELAY_MS)
        self._delay_ms = max(doubled_ms, self._requested_ms)
        self._failed_at_ms = now_ms
        return self._delay_ms / 1000
