"""`make evaluate [ONLY=WORD,...]`: injects faults into a real quorum by hand, as an SRE who evaluates kraftwatch does.

The real job monitors five controllers and two brokers (some faults need other clusters: `EvaluatedQuorum`) and notifies
a webhook, Slack, PagerDuty and Alertmanager. For each fault it counts the notifications, reads the texts, compares the
page, `status` and `check`, and runs Kafka's own tools at the same moment. Each result is stored in
docs/evaluation.json, from which the table of docs/comparison.md is written. ONLY selects the faults whose names contain
a word. Exits with 1 if anything was not as expected.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.bench.__main__ import commit, load, machine
from tests.browser.chromium import Browser, chromium
from tests.evaluation.comparison_page import RESULTS, write_page
from tests.evaluation.counted_sinks import CountedSinks, counted_sinks
from tests.evaluation.evaluated_fault import EvaluatedFault
from tests.evaluation.evaluated_quorum import CLUSTER, EvaluatedQuorum, sections, started_labs
from tests.evaluation.evaluation_run import EvaluationRun
from tests.evaluation.quorum_faults import FAULTS, THRESHOLDS
from tests.job.configured_job import ConfiguredJob

CLEAR_S = 3.0
CONSOLE = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Evaluates the faults that ONLY selects, or all; each result replaces the stored one."""
    only = [word.strip() for word in os.environ.get("ONLY", "").split(",") if word.strip()]
    faults = [fault for fault in FAULTS if not only or any(word in fault.name for word in only)]
    folder = Path(tempfile.mkdtemp(prefix="kraftwatch-evaluation-"))
    began, wrong = time.monotonic(), 0
    number = 0
    for quorum, group in groupby(faults, key=lambda fault: fault.quorum):
        with ExitStack() as stack:
            starting = time.monotonic()
            run = started(folder / quorum.name.lower(), stack, quorum)
            CONSOLE.print(f"{quorum}: started after {time.monotonic() - starting:.0f} s in {folder}", markup=False)
            for fault in group:
                number += 1
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


def started(folder: Path, stack: ExitStack, quorum: EvaluatedQuorum) -> EvaluationRun:
    """Starts the quorum, the sinks, the job and, where it is installed, the browser."""
    folder.mkdir()
    labs = started_labs(quorum, folder, stack)
    sinks = stack.enter_context(counted_sinks(folder))
    job = _job(folder, sections(quorum, labs), sinks)
    stack.enter_context(job)
    browser: Browser | None = None
    if shutil.which("chromium") and shutil.which("chromedriver"):
        browser = stack.enter_context(chromium(folder / "profile"))
    pictures = folder / "pictures"
    pictures.mkdir()
    return EvaluationRun(
        labs=labs,
        job=job,
        sinks=sinks,
        browser=browser,
        pictures=pictures,
        say=lambda text: CONSOLE.print(f"  {text}", style="dim", markup=False),
    )


def _job(folder: Path, clusters: list[dict[str, Any]], sinks: CountedSinks) -> ConfiguredJob:
    """Returns the job; its PagerDuty and Slack have the addresses of the doubles, as in the kill campaign."""
    environment = sinks.services.instrument(folder)
    job = ConfiguredJob(folder=folder / "job", name=CLUSTER, bootstrap=(), environment=environment)
    thresholds: dict[str, dict[str, float]] = {}
    for key, value in THRESHOLDS.items():
        rule, _, name = key.partition(".")
        thresholds.setdefault(rule, {"clear": CLEAR_S})[name] = value
    job.write_config(
        clusters=clusters,
        sinks=[f"jsonl:{job.jsonl}", *sinks.entries],
        thresholds=thresholds,
    )
    return job


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
