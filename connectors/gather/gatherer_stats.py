"""What gathering costs and fails to see, for /metrics, the bench and tests: one JSON file, replaced each second.

`{"at_ms", "cpu_s", "rss_bytes", "rows", "publications",
  "clusters": {NAME: {"requests_sent", "busiest_second", "unseen": {SIGHT: {REASON: COUNT}}}}}`
"""

import json
import os
import resource
import time
from collections.abc import Mapping
from pathlib import Path

from connectors.gather.publisher import Recording
from connectors.kafka.rate_limiter import Budget

_PAGE_BYTES = resource.getpagesize()


class Stats:
    """Writes the file, if one was asked for."""

    def __init__(self, path: str | None, *, recording: Recording, budgets: Mapping[str, Budget]) -> None:
        self._path = None if path is None else Path(path)
        self._recording = recording
        self._budgets = budgets

    def write(self) -> None:
        """Replace the file. A file that cannot be written is not worth the gatherer's life."""
        if self._path is None:
            return
        new = self._path.with_name(self._path.name + ".new")
        try:
            new.write_text(json.dumps(self.read()), encoding="utf-8")
            new.replace(self._path)
        except OSError:
            self._path = None

    def read(self) -> dict[str, object]:
        """The numbers now."""
        times = os.times()
        return {
            "at_ms": time.time_ns() // 1_000_000,
            "cpu_s": round(times.user + times.system, 2),
            "rss_bytes": _rss_bytes(),
            "rows": self._recording.rows,
            "publications": self._recording.publications,
            "clusters": {
                name: {
                    "requests_sent": budget.requests_sent,
                    "busiest_second": budget.busiest_second,
                    "unseen": self._unseen(name),
                }
                for name, budget in self._budgets.items()
            },
        }

    def _unseen(self, cluster: str) -> dict[str, dict[str, int]]:
        counts: dict[str, dict[str, int]] = {}
        for (name, sight, reason), count in self._recording.unseen.items():
            if name == cluster:
                counts.setdefault(sight, {})[reason] = count
        return counts


def _rss_bytes() -> int | None:
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
    except OSError:
        return None
