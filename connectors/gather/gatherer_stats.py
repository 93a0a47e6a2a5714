"""Cost, failures and stalls of the gatherer, for /metrics and the benchmark: one JSON file, replaced each second.

One event loop serves all clusters, so a stall delays every cluster. The loop notes the time of its turns; a reader in
another process judges its age in the file: a loop that is frozen cannot report it. Times are of CLOCK_MONOTONIC, which
all processes of a machine share and no clock change moves.
"""

import os
import resource
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from connectors.gather.publisher import Publisher
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.request_pacing import RateLimiter
from connectors.store.durable_file import Synced, replace_file

_PAGE_BYTES = resource.getpagesize()
STALLED_S: Final = 5.0
"""A loop that did not run for this long is stalled: polls, which are due each second, are missing."""
_TURN_S: Final = 0.25
_REMEMBERED_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopCounts:
    """The event loop, as LoopHeartbeat measures it."""

    pid: int
    turn_at_s: float
    longest_stall_s: float

    @property
    def standing_s(self) -> float:
        """For how long the loop has not run now."""
        return max(0.0, time.monotonic() - self.turn_at_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCounts:
    """The requests and failures of one cluster."""

    requests_sent: int
    busiest_second: int
    failed_observations: Mapping[str, Mapping[str, int]]
    """How many observations failed, by source and reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenStats:
    """The content of the file."""

    at_ms: int
    cpu_s: float
    rss_bytes: int | None
    rows: int
    publications: int
    loop: LoopCounts
    clusters: Mapping[str, ClusterCounts]


_JSON: TypeAdapter[WrittenStats] = TypeAdapter(WrittenStats)


def read_stats(path: Path) -> WrittenStats | None:
    """Reads the file; None if there is none, or if it is damaged."""
    try:
        return _JSON.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def stalled_loop_s(path: Path, *, pid: int | None) -> float | None:
    """Returns for how long the event loop of the gatherer with this process id has not run.

    None where that gatherer has not written its statistics yet: it starts, or it is an older one's file.
    """
    stats = read_stats(path)
    return None if stats is None or stats.loop.pid != pid else stats.loop.standing_s


def write_stats(path: Path, stats: WrittenStats) -> None:
    """Replaces the file, or raises OSError."""
    replace_file(path, _JSON.dump_json(stats), synced=Synced.NOTHING)


def gatherer_problem(*, runs: bool, stalled_s: float | None) -> str | None:
    """Returns why nothing is observed; None if the gatherer runs, and its loop ran recently or was not reported yet."""
    if not runs:
        return "the gatherer does not run"
    if stalled_s is None or stalled_s <= STALLED_S:
        return None
    return f"the gatherer's event loop has not run for {stalled_s:.1f} s: no cluster is observed"


class LoopHeartbeat:
    """Measures the turns of one event loop."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._stalls: deque[tuple[float, float]] = deque()
        self.turn_at_s = loop.now()
        """Monotonic seconds of the newest turn."""

    async def run(self) -> None:
        """Measures until cancelled."""
        self.turn_at_s = self._loop.now()
        while True:
            await self._loop.sleep(_TURN_S)
            before, self.turn_at_s = self.turn_at_s, self._loop.now()
            self._stalls.append((self.turn_at_s, max(0.0, self.turn_at_s - before - _TURN_S)))
            while self._stalls[0][0] < self.turn_at_s - _REMEMBERED_S:
                self._stalls.popleft()

    @property
    def longest_stall_s(self) -> float:
        """The longest time in the last minute by which a turn came late."""
        return max((late_s for _, late_s in self._stalls), default=0.0)


def current_stats(
    publisher: Publisher, rate_limiters: Mapping[str, RateLimiter], heartbeat: LoopHeartbeat
) -> WrittenStats:
    """Returns the numbers of this process; `rate_limiters` by cluster."""
    times = os.times()
    failed: dict[str, dict[str, dict[str, int]]] = {name: {} for name in rate_limiters}
    for (name, source, reason), count in publisher.failures.items():
        failed[name].setdefault(source, {})[reason] = count
    return WrittenStats(
        at_ms=time.time_ns() // 1_000_000,
        cpu_s=round(times.user + times.system, 2),
        rss_bytes=rss_bytes(),
        rows=publisher.rows,
        publications=publisher.publications,
        loop=LoopCounts(
            pid=os.getpid(),
            turn_at_s=round(heartbeat.turn_at_s, 3),
            longest_stall_s=round(heartbeat.longest_stall_s, 3),
        ),
        clusters={
            name: ClusterCounts(
                requests_sent=rate_limiter.requests_sent,
                busiest_second=rate_limiter.busiest_second,
                failed_observations=failed[name],
            )
            for name, rate_limiter in rate_limiters.items()
        },
    )


def rss_bytes() -> int | None:
    """Returns the resident memory of this process; None where it cannot be read."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
    except OSError:
        return None
