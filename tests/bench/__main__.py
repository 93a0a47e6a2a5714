"""`make bench [ONLY=NAME,...]`: measures the sections of docs/performance.md one after the other and writes the page.

Figures are stored after each section: one that fails, or that is measured alone, leaves the others unchanged.
Asserts nothing about the figures; exits with 1 if a section could not be measured.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from connectors.errors import UsageError
from tests.bench.measured_sections import ROOT, SECTIONS, BenchSection, store_section
from tests.bench.performance_page import write_pages

CONSOLE = Console(highlight=False, soft_wrap=True)
_END_S = 20.0


def main() -> int:
    """Measures the sections named by ONLY, or all."""
    argparse.ArgumentParser(prog="make bench", description=__doc__).parse_args()
    try:
        sections = chosen(os.environ.get("ONLY", ""))
    except UsageError as problem:
        sys.stderr.write(f"make bench: {problem}\n")
        return 2
    CONSOLE.print(f"{machine()}; commit {commit()}; load average {load()}")
    failed: list[str] = []
    for number, section in enumerate(sections, 1):
        CONSOLE.print(f"[{number}/{len(sections)}] {section.name} …", markup=False)
        began, load_before = time.monotonic(), load()
        why, figures = measured(section)
        seconds = time.monotonic() - began
        if why is not None:
            CONSOLE.print(f"  failed after {seconds:.0f} s: {why}", markup=False)
            failed.append(section.name)
            continue
        facts = {
            "machine": machine(),
            "commit": commit(),
            "at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "load": f"{load_before} before, {load()} after",
            "seconds": round(seconds),
            "runs": section.runs,
        }
        page = write_pages(store_section(section.name, facts, figures), section.name)
        CONSOLE.print(f"  {seconds:.0f} s, load average {facts['load']}\n\n{page}", markup=False)
    if failed:
        CONSOLE.print(f"not measured: {', '.join(failed)}")
    return 1 if failed else 0


def chosen(only: str) -> Sequence[BenchSection]:
    """Returns the sections of a list of names; all for an empty one.

    Raises:
        UsageError: a name is unknown.
    """
    names = [name.strip() for name in only.split(",") if name.strip()]
    known = {section.name for section in SECTIONS}
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise UsageError(f"ONLY={unknown} is no section; the sections are {', '.join(each.name for each in SECTIONS)}")
    return [section for section in SECTIONS if not names or section.name in names]


def measured(section: BenchSection) -> tuple[str | None, Any]:
    """Measures a section in a process of its own; returns why it failed, and its figures."""
    with tempfile.TemporaryDirectory(prefix="kraftwatch-bench-") as folder:
        figures, log = Path(folder) / "figures.json", Path(folder) / "log"
        command = [sys.executable, "-m", "tests.bench.section_figures", section.name, str(figures)]
        with log.open("wb") as output, subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output) as process:
            try:
                code = process.wait(section.limit_s)
            except subprocess.TimeoutExpired:
                end_family(process.pid)
                return f"it took more than {section.limit_s:.0f} s", None
            except BaseException:
                end_family(process.pid)
                raise
        if code != 0 or not figures.exists():
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
            return (lines or [f"exit code {code}"])[-1], None
        return None, json.loads(figures.read_text())


def end_family(pid: int) -> None:
    """Ends a process and its descendants: first the process alone, so that it ends the others itself."""
    family = psutil.Process(pid).children(recursive=True)
    psutil.Process(pid).terminate()
    _, left = psutil.wait_procs([psutil.Process(pid), *family], _END_S)
    for process in left:
        process.kill()


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
