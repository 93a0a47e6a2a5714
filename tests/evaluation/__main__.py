"""`make evaluate [ONLY=WORD,...]`: injects faults into a real quorum by hand, as an SRE who evaluates kraftwatch does.

The real job monitors five controllers and two brokers and notifies a webhook, Slack, PagerDuty and Alertmanager. For
each fault it counts the notifications, reads the texts, and runs Kafka's own tools at the same moment. What went as
expected replaces the fault's row in the table of docs/comparison.md. ONLY selects the faults whose names contain a
word. Exits with 1 if anything was not as expected.
"""

import os
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from tests.bench.__main__ import ROOT, commit, load, machine
from tests.chaos.counted_sinks import counted_sinks
from tests.evaluation.evaluated_faults import FAULTS, THRESHOLDS
from tests.evaluation.evaluation_run import EvaluationRun
from tests.job.configured_job import ConfiguredJob, section
from tests.lab import Lab

PAGE = ROOT / "docs" / "comparison.md"
CLUSTER = "prod"
CLEAR_S = 3.0
CONSOLE = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Evaluates the faults that ONLY selects, or all."""
    only = [word.strip() for word in os.environ.get("ONLY", "").split(",") if word.strip()]
    faults = [fault for fault in FAULTS if not only or any(word in fault.name for word in only)]
    folder = Path(tempfile.mkdtemp(prefix="kraftwatch-evaluation-"))
    began, wrong = time.monotonic(), 0
    CONSOLE.print(f"{machine()}; commit {commit()}", markup=False)
    with ExitStack() as stack:
        run = started(folder, stack)
        CONSOLE.print(f"started after {time.monotonic() - began:.0f} s in {folder}", markup=False)
        for number, fault in enumerate(faults, 1):
            CONSOLE.print(f"[{number}/{len(faults)}] {fault.name}, load average {load()}", markup=False)
            found = run.run(fault)
            wrong += bool(found.problems)
            row = [fault.name, *found.cells(), f"{datetime.now(UTC):%Y-%m-%d}, {commit()}"]
            line = f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"
            CONSOLE.print(line, *(f"problem: {each}" for each in found.problems), sep="\n", markup=False)
            if not found.problems:
                write_row(fault.name, line)
    seconds = time.monotonic() - began
    CONSOLE.print(f"{len(faults)} faults, {wrong} with problems, {seconds:.0f} s; {folder}", markup=False)
    return 1 if wrong else 0


def write_row(name: str, line: str) -> None:
    """Writes the row of a fault into the page, if the page has one: the row of a new fault is put there by hand."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    lines = [line if each.startswith(f"| {name} |") else each for each in lines]
    PAGE.write_text("\n".join([*lines, ""]), encoding="utf-8")


def started(folder: Path, stack: ExitStack) -> EvaluationRun:
    """Starts the quorum, the sinks and the job, whose PagerDuty and Slack have the addresses of the doubles."""
    lab = Lab(folder / "lab", controllers=5, brokers=2, named=True, properties={"broker.session.timeout.ms": "3000"})
    stack.enter_context(lab)
    sinks = stack.enter_context(counted_sinks(folder))
    environment = sinks.services.instrument(folder)
    job = ConfiguredJob(folder=folder / "job", name=CLUSTER, bootstrap=(), environment=environment)
    thresholds: dict[str, dict[str, float]] = {}
    for key, value in THRESHOLDS.items():
        rule, _, name = key.partition(".")
        thresholds.setdefault(rule, {"clear": CLEAR_S})[name] = value
    job.write_config(
        clusters=[section(CLUSTER, lab, hosts_file=str(lab.hosts_file))],
        sinks=[f"jsonl:{job.jsonl}", *sinks.entries],
        thresholds=thresholds,
    )
    stack.enter_context(job)
    return EvaluationRun(
        lab=lab, job=job, sinks=sinks, say=lambda text: CONSOLE.print(f"  {text}", style="dim", markup=False)
    )


if __name__ == "__main__":
    sys.exit(main())
