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

from connectors.errors import UsageError
from connectors.secret import Secret

log = logging.getLogger(__name__)

ANSWER_S = 10.0
"""How long the URL may take."""
LOOK_S = 1.0
"""How often it is looked whether a beat is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """The heartbeat of the configuration."""

    url: Secret
    every_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Beats:
    """What became of the beats so far."""

    sent: int = 0
    failed: int = 0
    last_sent_at_ms: int | None = None


class Heartbeat:
    """Beats in a thread of its own while it is entered. Whatever goes wrong is logged and counted, and no more."""

    def __init__(self, wanted: Callable[[], Rhythm | None], *, well: Callable[[], bool]) -> None:
        """Make one.

        Args:
            wanted: asked anew each second: a running job may be given another configuration, or one without.
            well: no beat while this is False.
        """
        self._wanted = wanted
        self._well = well
        self._beats = Beats()
        self._failing = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    @property
    def beats(self) -> Beats | None:
        """What became of the beats so far; None while none is wanted."""
        return None if self._wanted() is None else self._beats

    def __enter__(self) -> "Heartbeat":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not awaited: a URL that hangs must not hold up the end of the job.
        self._stopping.set()

    def _run(self) -> None:
        ended: float | None = None
        while True:
            wanted = self._wanted()
            # From the end of the one before: a slow URL is not asked more often for it.
            if wanted is not None and (ended is None or time.monotonic() - ended >= wanted.every_s) and self._well():
                self._beat(wanted.url)
                ended = time.monotonic()
            if self._stopping.wait(LOOK_S if wanted is None else min(LOOK_S, wanted.every_s)):
                return

    def _beat(self, url: Secret) -> None:
        why = asked(url)
        if why is None:
            now_ms = time.time_ns() // 1_000_000
            self._beats = replace(self._beats, sent=self._beats.sent + 1, last_sent_at_ms=now_ms)
        else:
            self._beats = replace(self._beats, failed=self._beats.failed + 1)
            if not self._failing:
                log.warning("The heartbeat was not taken, and is tried again: %s", why)
        self._failing = why is not None


def asked(url: Secret) -> str | None:
    """Ask the URL once; None when it took the beat, else why not, without any part of the URL."""
    try:
        with requests.get(url.read(), timeout=ANSWER_S, stream=True) as answer:
            return None if answer.ok else f"it was answered {answer.status_code}"
    except UsageError as problem:
        return str(problem)
    except requests.ConnectTimeout:
        return "no connection in time"
    except requests.Timeout:
        return "no answer in time"
    except requests.exceptions.SSLError:
        return "TLS failed"
    except (requests.RequestException, ValueError) as problem:
        # Its text holds the URL, in parts.
        return f"no connection ({type(problem).__name__})"
