"""`make evaluate [ONLY=WORD,...]`: injects faults into a real quorum by hand, as an SRE who evaluates kraftwatch does.

The real job monitors five controllers and two brokers and notifies a webhook, Slack, PagerDuty and Alertmanager. For
each fault it counts the notifications, reads the texts, and runs Kafka's own tools at the same moment. Each result is
stored in docs/evaluation.json, from which the table of docs/comparison.md is written. ONLY selects the faults whose
names contain a word. Exits with 1 if anything was not as expected.
"""

import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.bench.__main__ import commit, load, machine
from tests.evaluation.comparison_page import RESULTS, write_page
from tests.evaluation.counted_sinks import counted_sinks
from tests.evaluation.evaluated_fault import EvaluatedFault
from tests.evaluation.evaluation_run import EvaluationRun
from tests.evaluation.quorum_faults import FAULTS, THRESHOLDS
from tests.job.configured_job import ConfiguredJob, section
from tests.lab import Lab

CLUSTER = "prod"
CLEAR_S = 3.0
CONSOLE = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Evaluates the faults that ONLY selects, or all; each result replaces the stored one."""
    only = [word.strip() for word in os.environ.get("ONLY", "").split(",") if word.strip()]
    faults = [fault for fault in FAULTS if not only or any(word in fault.name for word in only)]
    folder = Path(tempfile.mkdtemp(prefix="kraftwatch-evaluation-"))
    began, wrong = time.monotonic(), 0
    with ExitStack() as stack:
        run = started(folder, stack)
        CONSOLE.print(f"started after {time.monotonic() - began:.0f} s in {folder}", markup=False)
        for number, fault in enumerate(faults, 1):
            result = _evaluate(run, fault, f"[{number}/{len(faults)}]")
            wrong += bool(result["problems"])
            write_page(stored_with(result))
    seconds = time.monotonic() - began
    CONSOLE.print(f"{len(faults)} faults, {wrong} with problems, {seconds:.0f} s; {folder}", markup=False)
    return 1 if wrong else 0


def stored_with(result: dict[str, Any]) -> dict[str, Any]:
    """Stores the result of a fault in docs/evaluation.json; returns all results in the order of `FAULTS`."""
    faults = {result["name"]: result}
    if RESULTS.exists():
        faults = {each["name"]: each for each in json.loads(RESULTS.read_text(encoding="utf-8"))["faults"]} | faults
    stored = {
        "machine": machine(),
        "thresholds": THRESHOLDS,
        "faults": [faults[fault.name] for fault in FAULTS if fault.name in faults],
    }
    RESULTS.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return stored


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


def _evaluate(run: EvaluationRun, fault: EvaluatedFault, number: str) -> dict[str, Any]:
    began, load_before = time.monotonic(), load()
    CONSOLE.print(f"{number} {fault.name}", markup=False)
    result = run.run(fault)
    result["measured"] = {
        "at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "load": [float(load_before), float(load())],
        "seconds": round(time.monotonic() - began),
    }
    for key, value in result.items():
        CONSOLE.print(f"  {key}: {value}", style="red" if key == "problems" and value else None, markup=False)
    return result


if __name__ == "__main__":
    sys.exit(main())
