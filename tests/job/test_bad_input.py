"""The job starts although no controller can be reached: its names do not resolve, or the cluster is down."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.lab.addresses import Ports
from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcess
from tests.job.configured_job import ConfiguredJob
from tests.job.conftest import short_thresholds
from tests.job.job_state import wait_until_resolved

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

LAB = {"brokers": 0, "named": True}


@pytest.fixture(scope="module")
def job(folder: Path, lab: Lab) -> Iterator[JobProcess]:
    job = JobProcess(
        folder=folder / "job",
        name="test",
        bootstrap=lab.bootstrap,
        hosts_file=lab.hosts_file,
        settings=short_thresholds("monitor-blind", "stale-voter-endpoint"),
    )
    job.start()
    yield job
    job.stop()


def test_job_starts_while_no_controller_name_resolves(lab: Lab, job: JobProcess) -> None:
    since = len(job.alerts())
    names = [lab.node(node).host for node in lab.controllers]
    job.stop()
    lab.names.drop(*names)

    job.start()
    # The alert is a warning at first if the polls failed for longer than the reads of the log.
    job.wait_for("monitor-blind", severity="critical", since=since)
    stale = job.wait_for("stale-voter-endpoint", severity="critical", since=since)

    assert stale.line["evidence"]["probe_result"] == "the name does not resolve (NXDOMAIN)"
    lab.names.add(*names)
    wait_until_resolved(job)


def test_a_new_disk_watches_a_cluster_that_is_down_by_its_configured_id(folder: Path) -> None:
    """After an outage of the whole room: the monitor's disk is lost, and no controller is up yet."""
    job = ConfiguredJob(folder=folder / "new-disk", name="test", bootstrap=(f"127.0.0.1:{Ports().claim()}",))
    clusters = [{"name": "test", "cluster_id": "Zm9yLXRlc3RzLW9ubHkhIQ", "bootstrap": list(job.bootstrap)}]
    job.write_config(clusters=clusters, thresholds={"no-leader": {"hold": 2}})

    with job:
        alert = job.wait_for("no-leader")

    assert alert.line["cluster_id"] == "Zm9yLXRlc3RzLW9ubHkhIQ"
