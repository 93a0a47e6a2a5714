"""`make bench [ONLY=NAME,...]`: measures sections, prints their figures and writes them into docs/performance.md.

Each section runs in a process of its own, and replaces the table of its name with the date and commit of the run; the
page has none for a section that depends on further settings. Asserts nothing about the figures; exits with 1 if one
could not be measured, or found problems.
"""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

from tests.page_tables import DOCS, table, tables_of, with_tables

ROOT = Path(__file__).parents[2]
PAGE = DOCS / "performance.md"
SECTIONS = {
    "latency": "latency_bench",
    "commands": "commands_bench",
    "growth": "growth_bench",
    "idle": "idle_bench",
    "idle-topic": "idle_topic_bench",
    "decode": "decode_bench",
    "million": "million_bench",
    "clusters": "clusters_bench",
    "understudy": "understudy_bench",
    "backlog": "backlog_bench",
    "relay": "relay_bench",
    "executors": "executors_bench",
    "object-store": "object_store_bench",
    "day": "day_bench",
    "month": "month_bench",
}
"""The module of each section: its function `figures` returns plain values by name, or a mapping of such mappings."""


def main() -> int:
    """Measures the sections named by ONLY, or all; with an argument, this section in this process."""
    if sys.argv[1:]:
        name, before = sys.argv[1], load()
        found = import_module(f"tests.bench.{SECTIONS[name]}").figures()
        print(json.dumps(found, indent=1, ensure_ascii=False))
        if name in (tables := tables_of(PAGE)):
            run = f"{datetime.now(UTC):%Y-%m-%d}, commit {commit()}, load average {before}"
            PAGE.write_text(with_tables(PAGE, {**tables, name: figures_table(run, found)}), encoding="utf-8")
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


def figures_table(run: str, found: Mapping[str, Any]) -> str:
    """Returns figures as a table whose longer side goes down; `run` says when and of which commit they are."""
    columns = found if all(isinstance(each, Mapping) for each in found.values()) else {"": found}
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    cells = {(column, name): _text(value) for column, each in columns.items() for name, value in each.items()}
    down, across = (names, [*columns]) if len(names) >= len(columns) else ([*columns], names)
    rows = (
        _line(name, *(cells.get((column, name)) or cells.get((name, column), "") for column in across)) for name in down
    )
    return table(_line(run, *across), rows)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('_', ' ') for cell in cells)} |"


def _text(value: object) -> str:
    match value:
        case Mapping():
            return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
        case list():
            return ", ".join(map(_text, value))
        case int() | float():
            return f"{value:,}"
        case _:
            return str(value)


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
