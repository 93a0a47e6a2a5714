"""When what a sink did not accept is sent again: RetrySchedule for the sink, SetAside for single notifications."""

from collections.abc import Sequence
from dataclasses import dataclass

from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry, minimal
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification

_FULL_ATTEMPTS = 2
"""How often a full document fails beside deliveries before the minimal one is sent."""
_FIRST_DELAY_MS = 1_000
_LONGEST_DELAY_MS = 10_000
"""Of a sink that fails as a whole: no new alert waits longer."""
_LONGEST_DELAY_ASIDE_MS = 60_000
_MAX_RETRY_AFTER_MS = 900_000
"""A longer Retry-After is cut to this: sending an alert too early is better than sending it hours late."""


class RetrySchedule:
    """Delays of 1, 2, 4 … s after failures in a row, or what the service asked for (Retry-After)."""

    def __init__(self, longest_ms: int = _LONGEST_DELAY_MS) -> None:
        self._longest_ms = longest_ms
        self._delay_ms = 0
        self._failed_at_ms = 0

    @property
    def failing(self) -> bool:
        """Whether the last call failed."""
        return self._delay_ms > 0

    def due(self, now_ms: Millis) -> bool:
        """Returns whether the sink may be called."""
        # A wall clock that was set back must not prolong the delay.
        return not 0 <= now_ms - self._failed_at_ms < self._delay_ms

    def succeeded(self) -> None:
        """Ends the delay."""
        self._delay_ms = 0

    def failed(self, retry_after_s: float, now_ms: Millis) -> float:
        """Starts the next delay and returns it in seconds; `retry_after_s`: what the service asked for, or 0."""
        doubled_ms = min(max(_FIRST_DELAY_MS, 2 * self._delay_ms), self._longest_ms)
        self._delay_ms = max(doubled_ms, round(min(retry_after_s * 1000, _MAX_RETRY_AFTER_MS)))
        self._failed_at_ms = now_ms
        return self._delay_ms / 1000


@dataclass(slots=True)
class _Refusal:
    """Why a notification was not accepted."""

    subject: str
    reason: str = ""
    failures: int = 0
    """While the sink worked otherwise."""
    rejected: bool = False


class SetAside:
    """What failed by itself, by incident. While the sink works otherwise, it has its own retry schedule.

    A notification that fails is sent last in the next call, so that it cannot stop the others. One whose document was
    rejected, or that failed repeatedly while the sink worked, is sent as a minimal document.
    """

    def __init__(self, *, ordered: bool) -> None:
        """Nothing failed yet. `ordered`: whether the sink gets each transition, in order.

        Then nothing is set aside while it fails as a whole, and of an alert only the oldest one is sent again.
        """
        self._ordered = ordered
        self._refusals: dict[str, _Refusal] = {}
        self._retries = RetrySchedule(_LONGEST_DELAY_ASIDE_MS)

    @property
    def reason(self) -> str | None:
        """Why the newest one was not accepted; None if all were."""
        return next((refusal.reason for refusal in reversed(self._refusals.values())), None)

    @property
    def subjects(self) -> Sequence[str]:
        """What these notifications are about."""
        return [refusal.subject for refusal in self._refusals.values()]

    def new(self, planned: Sequence[Notification]) -> Sequence[Notification]:
        """Returns what did not fail yet."""
        return [notification for notification in planned if notification.incident not in self._refusals]

    def due(self, planned: Sequence[Notification], now_ms: Millis) -> Sequence[Notification]:
        """Returns what failed and is due; forgets what is not planned any more."""
        incidents = {notification.incident for notification in planned}
        self._refusals = {incident: refusal for incident, refusal in self._refusals.items() if incident in incidents}
        if not self._retries.due(now_ms):
            return ()
        oldest: dict[str, Notification] = {}
        for each in planned:
            if each.incident in self._refusals:
                oldest.setdefault(each.incident, each)
        return list(oldest.values())

    def document(self, notification: Notification) -> Notification:
        """Returns what to send of a notification: itself, or the minimal one."""
        refusal = self._refusals.get(notification.incident)
        shortened = refusal is not None and (refusal.rejected or refusal.failures >= _FULL_ATTEMPTS)
        return minimal(notification) if shortened else notification

    def add(
        self, sent: Sequence[tuple[Notification, Outcome]], *, sink_works: bool, now_ms: Millis
    ) -> Sequence[Notification]:
        """Adds what failed by itself, and removes what was delivered; returns what is new.

        `sink_works`: whether the sink accepted others.
        """
        before = set(self._refusals)
        failed = []
        for notification, outcome in sent:
            match outcome:
                case Delivered():
                    self._refusals.pop(notification.incident, None)
                case Retry() if self._ordered and not sink_works:
                    pass
                case Rejected() | Retry(attempted=True, after_s=0):
                    failed.append(notification)
                    root = notification.root
                    subject = f"{root.cluster} {root.rule} {root.subject}"
                    # Removed first: the newest is the last.
                    refusal = self._refusals.pop(notification.incident, _Refusal(subject))
                    refusal.reason = outcome.reason
                    refusal.failures += sink_works
                    refusal.rejected = refusal.rejected or isinstance(outcome, Rejected)
                    self._refusals[notification.incident] = refusal
                case Retry():
                    pass
        if not self._refusals:
            self._retries.succeeded()
        elif failed and sink_works:
            self._retries.failed(0, now_ms)
        return [each for each in failed if each.incident not in before]
