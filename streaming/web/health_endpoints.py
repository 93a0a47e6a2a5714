"""/healthz and /readyz: whether the job itself runs, and whether it has evaluated anything yet."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from flask import Blueprint
from flask.typing import ResponseReturnValue

from connectors.gather.loop_heartbeat import STALLED_S

HEALTH_PATHS = ("/healthz", "/readyz")
"""They are answered without a token, because a kubelet cannot send one, and show no detail of a cluster."""
STALE_S = 30.0
"""A healthy job ends a batch every second; one without a batch for this long hangs."""
START_S = 900.0
"""How long a job may take to its first batch: minutes where many processes share a core."""


@dataclass(frozen=True, kw_only=True)
class JobLiveness:
    """What shows that the job runs."""

    last_batch_at: Callable[[], float | None]
    """Monotonic seconds of the newest finished batch; None before the first one."""
    gatherer_runs: Callable[[], bool]
    gatherer_stalled_s: Callable[[], float | None] = lambda: None
    """For how long the gatherer's event loop has not run; None where its gatherer has not reported yet."""
    since: float = field(default_factory=time.monotonic)

    @property
    def is_starting(self) -> bool:
        """Whether the job waits for its first batch, and may still do so: Spark starts, and the gatherer runs."""
        waits = self.last_batch_at() is None and time.monotonic() - self.since <= START_S
        return waits and self.gatherer_runs() and (self.gatherer_stalled_s() or 0) <= STALLED_S

    @property
    def is_healthy(self) -> bool:
        """Whether batches complete and the gatherer runs: the heartbeat depends on it."""
        last = self.last_batch_at()
        if last is None or time.monotonic() - last > STALE_S or not self.gatherer_runs():
            return False
        return (self.gatherer_stalled_s() or 0) <= STALLED_S


def health_endpoints(liveness: JobLiveness) -> Blueprint:
    """Returns the two paths: 200 when healthy, 503 with the reason when not. /healthz is 200 during the start too."""
    blueprint = Blueprint("health", __name__)

    @blueprint.get("/healthz")
    def healthz() -> ResponseReturnValue:
        last = liveness.last_batch_at()
        age_s = time.monotonic() - (liveness.since if last is None else last)
        gatherer_runs = liveness.gatherer_runs()
        stalled_s = None if (stalled := liveness.gatherer_stalled_s()) is None else round(stalled, 1)
        body = {
            "seconds_since_last_batch": round(age_s, 1),
            "gatherer": gatherer_runs,
            "gatherer_stalled_seconds": stalled_s,
        }
        if age_s > (STALE_S if last is not None else START_S):
            return {"status": "no batch has completed for too long", **body}, 503
        if not gatherer_runs:
            return {"status": "the gatherer does not run", **body}, 503
        if stalled_s is not None and stalled_s > STALLED_S:
            stall = f"the gatherer's event loop has not run for {stalled_s} s: no cluster is observed"
            return {"status": stall, **body}, 503
        return {"status": "starting" if last is None else "ok", **body}

    @blueprint.get("/readyz")
    def readyz() -> ResponseReturnValue:
        if liveness.last_batch_at() is None:
            return {"status": "waiting for the first batch"}, 503
        return {"status": "ready"}

    return blueprint
