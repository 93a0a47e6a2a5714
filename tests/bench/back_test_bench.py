"""Measures a back-test of a quiet cluster: `kraftwatch replay` on journals of several lengths, by hours.

`python -m tests.bench.back_test_bench [--hours 6,24,72]`. The journals are the recorded rows of a real quiet quorum
(tests/data/journal) with later times and offsets. Once an hour the leader's view changes, as with each snapshot of its
log. Asserts nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from connectors.journal.writer import JournalWriter
from connectors.observation import Observation, ObservationKind
from tests.bench.backlog_rows import QUIET_PERIOD_S, QUIET_START_S, backlog, quiet_rows

HOURS: Final = (6, 24, 72)
_TOGETHER: Final = 2_000
_YEAR_H: Final = 365 * 24


def figures(hours: Sequence[int] = HOURS) -> dict[str, Any]:
    """Returns CPU time and duration of a replay by the hours of the journal, and what a year takes at that rate."""
    found: dict[str, Any] = {}
    for length in hours:
        with tempfile.TemporaryDirectory(prefix="kraftwatch-bench-", ignore_cleanup_errors=True) as name:
            found[f"{length} h"] = _replay(Path(name), length)
    return found


def _replay(folder: Path, hours: int) -> dict[str, Any]:
    rows = _write(folder / "journal", _hourly(backlog(
        quiet_rows(folder / "recorded"), hours * 3_600, start_s=QUIET_START_S, period_s=QUIET_PERIOD_S
    )))  # fmt: skip
    size = sum(path.stat().st_size for path in (folder / "journal").iterdir())
    before, began = os.times(), time.monotonic()
    command = [sys.executable, "-m", "streaming", "replay", "--journal", str(folder / "journal"), "--json"]
    subprocess.run(command, check=True, capture_output=True)
    seconds, after = time.monotonic() - began, os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return {
        "rows": rows,
        "journal_mb": size / 1e6,
        "seconds": seconds,
        "cpu_s": spent,
        "cpu_s_of_a_day": spent * 24 / hours,
        "cpu_minutes_of_a_year": spent * _YEAR_H / hours / 60,
    }


def _hourly(rows: Iterable[Observation]) -> Iterator[Observation]:
    """Yields the rows; in each hour, one view of the leader differs from the others."""
    hour = 0
    for row in rows:
        other = row.kind is ObservationKind.VIEW and b'"tells_absence":true' in row.payload
        if other and row.observed_at_ms // 3_600_000 != hour:
            hour = row.observed_at_ms // 3_600_000
            yield replace(row, payload=row.payload.replace(b'"tells_absence":true', b'"tells_absence":false'))
        else:
            yield row


def _write(folder: Path, rows: Iterable[Observation]) -> int:
    """Writes a journal that keeps everything; returns the number of its rows."""
    count, waiting = 0, list[Observation]()
    with JournalWriter(folder, keep_bytes=1 << 50, keep_s=1e10) as writer:
        for row in rows:
            waiting.append(row)
            count += 1
            if len(waiting) >= _TOGETHER:
                writer.append(waiting)
                writer.publish()
                waiting = []
        writer.append(waiting)
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the figures as JSON."""
    parser = argparse.ArgumentParser(description="A back-test of a quiet cluster by the length of its journal.")
    parser.add_argument("--hours", default=",".join(map(str, HOURS)))
    options = parser.parse_args(arguments)
    found = figures(list(map(int, options.hours.split(","))))
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
