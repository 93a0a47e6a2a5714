"""The dead-man heartbeat: a URL is asked now and then while the job is well, and its silence is the alarm.

It is for the one thing that no alert of ours can tell: that nobody is left to tell it. A service that expects to be
asked (healthchecks.io, Dead Man's Snitch, a cron monitor) alarms when it is not.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType

import requests

from connectors.sinks.redaction import redact

log = logging.getLogger(__name__)

ANSWER_S = 10.0
"""How long the URL may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beats:
    """What became of the beats so far."""

    sent: int = 0
    failed: int = 0
    last_sent_at_ms: int | None = None


class Heartbeat:
    """Beats in a thread of its own while it is entered. Whatever goes wrong is logged and counted, and no more."""

    def __init__(self, url: str, *, every_s: float, well: Callable[[], bool]) -> None:
        """Make one; it beats once it is entered.

        Args:
            url: asked with GET. It is a secret: whoever knows it can keep the alarm quiet.
            every_s: time between two beats; after a failure the next one comes no sooner.
            well: no beat while this is False.
        """
        self._url = url
        self._every_s = every_s
        self._well = well
        self._beats = Beats()
        self._failing = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    @property
    def beats(self) -> Beats:
        """What became of the beats so far."""
        return self._beats

    def __enter__(self) -> "Heartbeat":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()

    def _run(self) -> None:
        due = 0.0
        while not self._stopping.wait(min(1.0, self._every_s)):
            if time.monotonic() >= due and self._well():
                self._beat()
                # From the end of this one: a slow URL is not asked more often for it.
                due = time.monotonic() + self._every_s

    def _beat(self) -> None:
        try:
            with requests.get(self._url, timeout=ANSWER_S, stream=True) as answer:
                answer.raise_for_status()
        except requests.RequestException as problem:
            self._beats = replace(self._beats, failed=self._beats.failed + 1)
            if not self._failing:
                log.warning("The heartbeat was not taken, and is tried again: %s", reason(problem))
            self._failing = True
        else:
            self._beats = replace(self._beats, sent=self._beats.sent + 1, last_sent_at_ms=time.time_ns() // 1_000_000)
            self._failing = False


def reason(problem: requests.RequestException) -> str:
    """Why a beat was not taken. The text of requests' errors holds the URL, or a part of it without its scheme."""
    answer = problem.response
    if answer is not None:
        return redact(f"it was answered {answer.status_code}")
    kind = type(problem).__name__
    return {
        "ConnectTimeout": "no connection in time",
        "ReadTimeout": "no answer in time",
        "SSLError": "TLS failed",
        "ProxyError": "the proxy refused",
        "ConnectionError": "no connection",
    }.get(kind, kind)
