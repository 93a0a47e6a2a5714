"""What a job reports to the jobs that share its store."""

from dataclasses import replace
from pathlib import Path

import pytest

from connectors.delivery.delivery_report import DeliveryReport
from connectors.delivery.ledger import Ledger
from connectors.store.tables import job_database
from rules.evaluate import BLIND
from rules.finding import Severity
from rules.model.identifiers import Millis
from streaming.job.job import DeliveredBatches
from streaming.job.job_monitor import JobMonitor
from streaming.metrics.batch_stats import BatchStats, DeliveredBatch
from streaming.pipeline.active_role import BEHIND_MS, is_better
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.notifying import Notifying
from streaming.status.cluster_status import FindingStatus
from streaming.status.status_store import StatusStore
from tests.unit.streaming.status.statuses import NO_OBSERVATION

NOW = 1_795_150_862_345


def batches(folder: Path) -> DeliveredBatches:
    return DeliveredBatches(
        BatchStats(),
        JobMonitor(lambda: pytest.fail("it is not evaluated")),
        Notifying(Ledger(job_database(folder)), [], store=StatusStore(["prod", "test"])),
        Checkpoint(folder=folder).topic_files,
    )


def batch(cluster: str, observed_ms: int, *findings: FindingStatus) -> DeliveredBatch:
    status = replace(NO_OBSERVATION, cluster=cluster, observed_at_ms=Millis(observed_ms), findings=findings)
    return DeliveredBatch(took_s=0.1, statuses=[status], quarantined={}, report=DeliveryReport(recorded=0, sinks={}))


def test_a_cluster_whose_relay_has_a_slow_clock_does_not_make_the_job_seem_behind(tmp_path: Path) -> None:
    """Each batch may have the status of another cluster: the lease would change hands every few seconds."""
    first, second = batches(tmp_path), batches(tmp_path)
    current, slow = batch("prod", NOW), batch("test", NOW - 2 * BEHIND_MS)
    for job, delivered in ((first, (current, slow)), (second, (slow, current))):
        for each in delivered:
            job.add(each)

    assert first.report() == second.report()
    assert not is_better(second.report(), first.report())


def test_a_job_that_observes_no_cluster_any_more_falls_behind_one_that_does(tmp_path: Path) -> None:
    """Of two jobs at two sites, the site that is cut off must not notify that every cluster is unknown."""
    cut_off, observing = batches(tmp_path), batches(tmp_path)
    blind = FindingStatus(
        rule=BLIND, subject="quorum", severity=Severity.CRITICAL, summary="Unknown.", nothing_observed=True
    )
    for job, findings in ((cut_off, (blind,)), (observing, ())):
        job.add(batch("prod", NOW))
        job.add(batch("prod", NOW + 2 * BEHIND_MS, *findings))

    assert is_better(observing.report(), cut_off.report())
    assert not is_better(cut_off.report(), observing.report())
