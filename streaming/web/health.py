"""/healthz and /readyz of the job itself: is it alive, and does it see."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from flask import Blueprint
from flask.typing import ResponseReturnValue

STALE_S = 30.0
"""A batch ends every second when all is well; this long without one is a job that hangs."""


@dataclass(frozen=True, kw_only=True)
class Pulse:
    """What tells that the job lives."""

    last_batch_at: Callable[[], float | None]
    """Monotonic seconds of the newest finished batch, None before the first."""
    gathers: Callable[[], bool]
    """Whether the gatherer runs."""
    since: float = field(default_factory=time.monotonic)

    @property
    def well(self) -> bool:
        """Whether batches end and the gatherer runs: what the heartbeat goes by."""
        last = self.last_batch_at()
        return last is not None and time.monotonic() - last <= STALE_S and self.gathers()


def health(pulse: Pulse) -> Blueprint:
    """The two pages: 200 when well, 503 with the reason when not."""
    pages = Blueprint("health", __name__)

    @pages.get("/healthz")
    def healthz() -> ResponseReturnValue:
        last = pulse.last_batch_at()
        age_s = time.monotonic() - (pulse.since if last is None else last)
        gathers = pulse.gathers()
        body = {"seconds_since_last_batch": round(age_s, 1), "gatherer": gathers}
        if age_s > (STALE_S if last is not None else 4 * STALE_S):
            return {"status": "no batch ended for too long", **body}, 503
        if not gathers:
            return {"status": "the gatherer does not run", **body}, 503
        return {"status": "ok", **body}

    @pages.get("/readyz")
    def readyz() -> ResponseReturnValue:
        if pulse.last_batch_at() is None:
            return {"status": "waiting for the first batch"}, 503
        return {"status": "ready"}

    return pages
