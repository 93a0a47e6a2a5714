"""Cost and failures of the gatherer, for /metrics, the benchmark and tests: one JSON file, replaced each second."""

import os
import resource
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from connectors.gather.loop_heartbeat import LoopHeartbeat
from connectors.gather.publisher import Publisher
from connectors.kafka.request_pacing import RateLimiter
from connectors.store.durable_file import Synced, replace_file

_PAGE_BYTES = resource.getpagesize()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopCounts:
    """The event loop, as `connectors.gather.loop_heartbeat` measures it."""

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
    """Replaces the file.

    Raises:
        OSError: it cannot be written.
    """
    replace_file(path, _JSON.dump_json(stats), synced=Synced.NOTHING)


class GathererStats:
    """Writes the file, if a path is configured."""

    def __init__(
        self,
        path: str | None,
        *,
        publisher: Publisher,
        rate_limiters: Mapping[str, RateLimiter],
        heartbeat: LoopHeartbeat,
    ) -> None:
        self._path = None if path is None else Path(path)
        self._publisher = publisher
        self._rate_limiters = rate_limiters
        self._heartbeat = heartbeat

    def write(self) -> None:
        """Replaces the file. If it cannot be written, the next call tries again."""
        if self._path is None:
            return
        with suppress(OSError):
            write_stats(self._path, self.read())

    def read(self) -> WrittenStats:
        """Returns the current numbers."""
        times = os.times()
        return WrittenStats(
            at_ms=time.time_ns() // 1_000_000,
            cpu_s=round(times.user + times.system, 2),
            rss_bytes=rss_bytes(),
            rows=self._publisher.rows,
            publications=self._publisher.publications,
            loop=LoopCounts(
                pid=os.getpid(),
                turn_at_s=round(self._heartbeat.turn_at_s, 3),
                longest_stall_s=round(self._heartbeat.longest_stall_s, 3),
            ),
            clusters={
                name: ClusterCounts(
                    requests_sent=rate_limiter.requests_sent,
                    busiest_second=rate_limiter.busiest_second,
                    failed_observations=self._failures(name),
                )
                for name, rate_limiter in self._rate_limiters.items()
            },
        )

    def _failures(self, cluster: str) -> dict[str, dict[str, int]]:
        counts: dict[str, dict[str, int]] = {}
        for (name, source, reason), count in self._publisher.failures.items():
            if name == cluster:
                counts.setdefault(source, {})[reason] = count
        return counts


def rss_bytes() -> int | None:
    """Returns the resident memory of this process; None where it cannot be read."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
    except OSError:
        return None
