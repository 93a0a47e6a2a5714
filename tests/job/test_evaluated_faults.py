"""Faults injected by hand, as an SRE who evaluates kraftwatch does: what people are sent, and what Kafka's tools show.

The real job monitors five controllers and two brokers and notifies a webhook, Slack, PagerDuty and Alertmanager. For
each fault the notifications are counted, the texts are read, and Kafka's own tools run at the same moment. With
KRAFTWATCH_WRITE_COMPARISON=1 (`make evaluate`) what went as expected replaces the fault's row in docs/comparison.md.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.bench.__main__ import ROOT, commit
from tests.chaos.counted_sinks import counted_sinks
from tests.job.configured_job import ConfiguredJob, section
from tests.job.evaluated_faults import FAULTS, THRESHOLDS, EvaluatedFault
from tests.job.evaluation_run import EvaluationRun
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
LAB = {"controllers": 5, "brokers": 2, "named": True, "properties": {"broker.session.timeout.ms": "3000"}}
PAGE = ROOT / "docs" / "comparison.md"
CLUSTER = "prod"
CLEAR_S = 3.0


@pytest.fixture(scope="module")
def run(lab: Lab, folder: Path) -> Iterator[EvaluationRun]:
    """The job on this quorum; its PagerDuty and Slack have the addresses of the doubles."""
    thresholds: dict[str, dict[str, float]] = {"alerts": {"clear": CLEAR_S}}
    for key, value in THRESHOLDS.items():
        rule, _, name = key.partition(".")
        thresholds.setdefault(rule, {})[name] = value
    with ExitStack() as stack:
        sinks = stack.enter_context(counted_sinks(folder))
        environment = sinks.services.instrument(folder)
        job = ConfiguredJob(folder=folder / "job", name=CLUSTER, bootstrap=(), environment=environment)
        job.write_config(
            clusters=[section(CLUSTER, lab, hosts_file=str(lab.hosts_file))],
            sinks=[f"jsonl:{job.jsonl}", *sinks.entries],
            thresholds=thresholds,
        )
        stack.enter_context(job)
        yield EvaluationRun(lab=lab, job=job, sinks=sinks, say=print)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_people_read_once_what_is_wrong_and_what_to_do_first(run: EvaluationRun, fault: EvaluatedFault) -> None:
    found = run.run(fault)

    row = [fault.name, *found.cells(), f"{datetime.now(UTC):%Y-%m-%d}, {commit()}"]
    line = f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"
    assert found.problems == [], line
    if os.environ.get("KRAFTWATCH_WRITE_COMPARISON"):
        write_row(fault.name, line)


def write_row(name: str, line: str) -> None:
    """Writes the row of a fault into the page, if the page has one: the row of a new fault is put there by hand."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    lines = [line if each.startswith(f"| {name} |") else each for each in lines]
    PAGE.write_text("\n".join([*lines, ""]), encoding="utf-8")
