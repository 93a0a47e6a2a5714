"""The job is killed while an alert is firing, and files of its checkpoint are damaged: no alert is lost or repeated."""

import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import sqlite_database
from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcess, JobProcessError
from streaming.pipeline.checkpoint import Checkpoint
from tests.eventually import eventually
from tests.job.conftest import short_thresholds
from tests.job.job_state import cluster_status, wait_until_delivered, wait_until_resolved

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def settings() -> dict[str, float]:
    return short_thresholds("no-leader")


@pytest.fixture
def killed(lab: Lab, job: JobProcess) -> Iterator[Checkpoint]:
    """Yields the checkpoint of a job that was killed while no-leader was firing; then the quorum recovers."""
    since = len(job.alerts())
    paused = lab.controllers[:2]
    lab.pause(*paused)
    job.wait_for("no-leader", since=since, within_s=180)
    wait_until_delivered(job)
    job.kill()
    yield Checkpoint(folder=job.checkpoint)
    lab.resume(*paused)
    wait_until_resolved(job, within_s=180, rules=["no-leader"])
    wait_until_delivered(job)


def no_leader(job: JobProcess, since: int) -> list[str]:
    return [each.state for each in job.alerts()[since:] if each.rule == "no-leader"]


def sees_the_cluster(job: JobProcess) -> None:
    """Waits until the job has read the cluster's log, in which the voters are."""
    eventually(lambda: bool(cluster_status(job).get("committed_voters")), within_s=60)


def test_files_that_a_power_failure_emptied_are_named_and_repaired(job: JobProcess, killed: Checkpoint) -> None:
    since = len(job.alerts())
    files = killed.spark_files
    version = files.commits[-1] + 1
    for path in (
        *(killed.spark / log / str(number) for log in ("offsets", "commits") for number in files.commits[-2:]),
        *(
            path
            for path in files.state.glob("*.*")
            if path.suffix in (".changelog", ".zip") and int(path.stem) >= version
        ),
    ):
        path.write_bytes(b"")
    command = f"run `kraftwatch checkpoint repair --checkpoint {killed.folder}`"

    with pytest.raises(JobProcessError) as refused:
        job.start()
    assert command in str(refused.value)

    words = command.strip("`").partition("kraftwatch ")[2].split()
    repaired = subprocess.run(
        [sys.executable, "-m", "streaming", *words, "--apply"], capture_output=True, text=True, check=False, timeout=600
    )
    assert repaired.returncode == 0, repaired
    assert "Spark continues after batch" in repaired.stdout
    job.start()
    sees_the_cluster(job)
    wait_until_delivered(job)

    assert no_leader(job, since) == []


def test_a_new_state_keeps_the_alerts_of_the_ledger(job: JobProcess, killed: Checkpoint) -> None:
    """As a repair does when no state is left and the journal is not complete: the log is read again."""
    since = len(job.alerts())
    shutil.rmtree(killed.spark)
    with JournalWriter(killed.journal) as writer:
        writer.read_logs_again()

    job.start()
    # Without a leader no node serves the log: the new state knows the alert from the ledger alone.
    wait_until_delivered(job, after_s=20)

    assert no_leader(job, since) == []


def test_a_lost_database_is_refused_and_what_is_firing_is_sent_again_after_the_repair(
    job: JobProcess, killed: Checkpoint
) -> None:
    since = len(job.alerts())
    sqlite_database(killed.folder).path.write_bytes(b"")

    with pytest.raises(JobProcessError, match="kraftwatch checkpoint repair"):
        job.start()
    command = [sys.executable, "-m", "streaming", "checkpoint", "repair", "--checkpoint", str(killed.folder), "--apply"]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    job.start()

    job.wait_for("no-leader", since=since, within_s=120)
    wait_until_delivered(job)
    assert no_leader(job, since) == ["firing"]


def test_each_alert_resolved_once(job: JobProcess) -> None:
    """Of the tests before: three alerts, of which the third one was sent twice."""
    sees_the_cluster(job)
    assert no_leader(job, 0) == [*["firing", "resolved"] * 2, "firing", "firing", "resolved"]
