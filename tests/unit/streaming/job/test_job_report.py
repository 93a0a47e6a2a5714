"""What a job reports to the jobs that share its store."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connectors.delivery.delivery_report import DeliveryReport
from rules.evaluate import BLIND
from rules.finding import Severity
from rules.model.identifiers import Millis
from streaming.job.job import Job
from streaming.job.job_monitor import JobMonitor
from streaming.metrics.batch_stats import BatchStats, DeliveredBatch
from streaming.pipeline.active_role import BEHIND_MS, is_better
from streaming.pipeline.checkpoint import Checkpoint
from streaming.status.cluster_status import FindingStatus
from tests.unit.streaming.status.statuses import NO_OBSERVATION

NOW = 1_795_150_862_345


def evaluating() -> Any:
    """Returns a job that has what a batch and a report need."""
    job: Any = object.__new__(Job)
    job.batch_stats = BatchStats(firing=lambda: ())
    job.notifying = SimpleNamespace(paused=nullcontext, people_not_reached=False)
    job.monitoring = SimpleNamespace()
    job.checkpoint = Checkpoint(folder=Path("no such folder"))
    job._job_monitor, job._observed_ms = JobMonitor(lambda: pytest.fail("it is not evaluated")), 0
    return job


def batch(cluster: str, observed_ms: int, *findings: FindingStatus) -> DeliveredBatch:
    status = replace(NO_OBSERVATION, cluster=cluster, observed_at_ms=Millis(observed_ms), findings=findings)
    return DeliveredBatch(took_s=0.1, statuses=[status], quarantined={}, report=DeliveryReport(recorded=0, sinks={}))


def test_a_cluster_whose_relay_has_a_slow_clock_does_not_make_the_job_seem_behind() -> None:
    """Each batch may have the status of another cluster: the lease would change hands every few seconds."""
    first, second = evaluating(), evaluating()
    current, slow = batch("prod", NOW), batch("test", NOW - 2 * BEHIND_MS)
    for job, batches in ((first, (current, slow)), (second, (slow, current))):
        for each in batches:
            job._note_batch(each)

    assert first._job_report() == second._job_report()
    assert not is_better(second._job_report(), first._job_report())


def test_a_job_that_observes_no_cluster_any_more_falls_behind_one_that_does() -> None:
    """Of two jobs at two sites, the site that is cut off must not notify that every cluster is unknown."""
    cut_off, observing = evaluating(), evaluating()
    blind = FindingStatus(
        rule=BLIND, subject="quorum", severity=Severity.CRITICAL, summary="Unknown.", nothing_observed=True
    )
    for job, findings in ((cut_off, (blind,)), (observing, ())):
        job._note_batch(batch("prod", NOW))
        job._note_batch(batch("prod", NOW + 2 * BEHIND_MS, *findings))

    assert is_better(observing._job_report(), cut_off._job_report())
    assert not is_better(cut_off._job_report(), observing._job_report())
