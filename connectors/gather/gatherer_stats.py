"""Cost and failures of the gatherer, for /metrics, the benchmark and tests: one JSON file, replaced each second.

`{"at_ms", "cpu_s", "rss_bytes", "rows", "publications",
  "loop": {"pid", "turn_at_s", "longest_stall_s", "stalled_s"},
  "clusters": {NAME: {"requests_sent", "busiest_second", "unseen": {SOURCE: {REASON: COUNT}}}}}`
"""

import json
import os
import resource
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from connectors.durable_file import Synced, replace_file
from connectors.gather.loop_heartbeat import LoopHeartbeat
from connectors.gather.publisher import Publisher
from connectors.kafka.rate_limiter import RateLimiter

_PAGE_BYTES = resource.getpagesize()


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
            content = json.dumps(self.read()).encode()
            replace_file(self._path, content, synced=Synced.NOTHING)

    def read(self) -> dict[str, object]:
        """Returns the current numbers."""
        times = os.times()
        return {
            "at_ms": time.time_ns() // 1_000_000,
            "cpu_s": round(times.user + times.system, 2),
            "rss_bytes": _rss_bytes(),
            "rows": self._publisher.rows,
            "publications": self._publisher.publications,
            "loop": {
                "pid": os.getpid(),
                "turn_at_s": round(self._heartbeat.turn_at_s, 3),
                "longest_stall_s": round(self._heartbeat.longest_stall_s, 3),
                "stalled_s": round(self._heartbeat.stalled_s_total, 3),
            },
            "clusters": {
                name: {
                    "requests_sent": rate_limiter.requests_sent,
                    "busiest_second": rate_limiter.busiest_second,
                    "unseen": self._failures(name),
                }
                for name, rate_limiter in self._rate_limiters.items()
            },
        }

    def _failures(self, cluster: str) -> dict[str, dict[str, int]]:
        counts: dict[str, dict[str, int]] = {}
        for (name, source, reason), count in self._publisher.failures.items():
            if name == cluster:
                counts.setdefault(source, {})[reason] = count
        return counts


def _rss_bytes() -> int | None:
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
    except OSError:
        return None
