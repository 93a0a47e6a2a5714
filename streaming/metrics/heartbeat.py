"""The dead-man heartbeat: requests a URL while the job is healthy; the service behind it alarms when requests stop.

It covers what no alert of kraftwatch can report: that kraftwatch itself has stopped. Such services are
healthchecks.io, Dead Man's Snitch and cron monitors.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from connectors.errors import UsageError
from connectors.process.wall_clock import wall_ms
from connectors.settings.secret import Secret
from connectors.settings.sections import url_problem
from connectors.sinks.http_request import visit
from connectors.sinks.sink import Retry
from streaming.metrics.periodic import Periodic

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
"""How long the URL may take, with all redirects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatSchedule:
    """The heartbeat of the configuration."""

    url: Secret
    every_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatCounts:
    """Heartbeats since the job started."""

    sent: int = 0
    failed: int = 0
    last_sent_at_ms: int | None = None


class Heartbeat(Periodic):
    """Sends heartbeats in its own thread while entered. A failure is logged and counted, and has no other effect."""

    def __init__(self, schedule: Callable[[], HeartbeatSchedule | None], *, is_healthy: Callable[[], bool]) -> None:
        """`schedule` is read each second, because a running job may receive another configuration."""
        super().__init__("heartbeat")
        self._schedule, self._is_healthy = schedule, is_healthy
        self._counts = HeartbeatCounts()
        self._failing = False

    @property
    def counts(self) -> HeartbeatCounts | None:
        """Heartbeats so far; None while none is configured."""
        return None if self._schedule() is None else self._counts

    def _every_s(self) -> float | None:
        schedule = self._schedule()
        return schedule.every_s if schedule is not None and self._is_healthy() else None

    def _send(self) -> None:
        schedule = self._schedule()
        if schedule is None:
            return
        try:
            error = request_url(schedule.url)
        except Exception as problem:  # noqa: BLE001 - the next heartbeat must be sent
            error = type(problem).__name__
        if error is None:
            self._counts = replace(self._counts, sent=self._counts.sent + 1, last_sent_at_ms=wall_ms())
        else:
            self._counts = replace(self._counts, failed=self._counts.failed + 1)
            if not self._failing:
                log.warning("The heartbeat failed and will be sent again: %s", error)
        self._failing = error is not None


def request_url(url: Secret) -> str | None:
    """Requests the URL once; returns None on success, else the reason, without any part of the URL."""
    try:
        text = url.read()
    except UsageError as problem:
        return str(problem)
    invalid = url_problem(text)
    if invalid is not None:
        return f"invalid url{url.place}: {invalid}"
    response = visit(text, seconds=TIMEOUT_S)
    if isinstance(response, Retry):
        return response.reason
    if not response.accepts:
        return f"the service answered {response.status}"
    return response.denial
