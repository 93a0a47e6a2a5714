"""`make bench [ONLY=NAME,...]`: measures the sections of docs/performance.md and prints their figures.

Each section runs in a process of its own. Asserts nothing about the figures; exits with 1 if one could not be measured,
or found problems.
"""

import json
import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
SECTIONS = {
    "latency": "latency_bench",
    "idle": "idle_bench",
    "idle-topic": "idle_topic_bench",
    "decode": "decode_bench",
    "million": "million_bench",
    "clusters": "clusters_bench",
    "backlog": "backlog_bench",
    "relay": "relay_bench",
    "executors": "executors_bench",
    "object-store": "object_store_bench",
    "day": "day_bench",
    "week": "week_bench",
}
"""The module of each section: its function `figures` returns plain values."""


def main() -> int:
    """Measures the sections named by ONLY, or all; with an argument, this section in this process."""
    if sys.argv[1:]:
        found = import_module(f"tests.bench.{SECTIONS[sys.argv[1]]}").figures()
        print(json.dumps(found, indent=1, ensure_ascii=False))
        return 1 if found.get("problems") else 0
    names = [name.strip() for name in os.environ.get("ONLY", "").split(",") if name.strip()] or list(SECTIONS)
    if unknown := [name for name in names if name not in SECTIONS]:
        print(f"make bench: ONLY={unknown[0]} is no section; the sections are {', '.join(SECTIONS)}", file=sys.stderr)
        return 2
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC; {machine()}; commit {commit()}")
    failed = []
    for name in names:
        print(f"\n{name}, load average {load()}", flush=True)
        began = time.monotonic()
        ended = subprocess.run([sys.executable, "-m", "tests.bench", name], cwd=ROOT, check=False)
        print(f"{name} took {time.monotonic() - began:.0f} s, load average {load()}", flush=True)
        failed += [name] if ended.returncode else []
    if failed:
        print(f"not measured, or with problems: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def machine() -> str:
    """Returns what the figures depend on."""
    memory = psutil.virtual_memory().total / 2**30
    return f"{platform.machine()}, {psutil.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"


def commit() -> str:
    """Returns the short id of the commit; with a plus sign if files of the product differ from it."""
    found = _git("rev-parse", "--short=7", "HEAD")
    changed = _git("status", "--porcelain", "--", "rules", "connectors", "streaming", "deploy")
    return f"{found or 'unknown'}{'+' if changed else ''}"


def load() -> str:
    """Returns the load average of the last minute."""
    return f"{psutil.getloadavg()[0]:.1f}"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
