"""The job is killed while an alert is firing, and files of its checkpoint are empty: no alert is lost or repeated."""

import subprocess
import sys

import pytest

from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcess, JobProcessError
from streaming.pipeline.checkpoint import Checkpoint
from tests.job.conftest import short_thresholds
from tests.job.job_state import wait_until_delivered, wait_until_resolved

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def settings() -> dict[str, float]:
    return short_thresholds("no-leader")


def empty_what_spark_does_not_sync(checkpoint: Checkpoint) -> None:
    """As after a power failure."""
    files = checkpoint.spark_files
    newest = files.commits[-1] + 1
    for log in ("offsets", "commits"):
        for number in files.commits[-2:]:
            (checkpoint.spark / log / str(number)).write_bytes(b"")
    for path in (checkpoint.spark / "state" / "0" / "0").glob("*.*"):
        if path.suffix in (".changelog", ".zip") and int(path.stem) >= newest:
            path.write_bytes(b"")


def test_files_that_a_power_failure_emptied_are_named_and_repaired(lab: Lab, job: JobProcess) -> None:
    lab.pause(*lab.controllers[:2])
    job.wait_for("no-leader", within_s=180)
    wait_until_delivered(job)
    job.kill()
    empty_what_spark_does_not_sync(Checkpoint(folder=job.checkpoint))
    command = f"run `kraftwatch checkpoint repair --checkpoint {job.checkpoint}`"

    with pytest.raises(JobProcessError) as refused:
        job.start()
    assert command in str(refused.value)

    words = command.strip("`").partition("kraftwatch ")[2].split()
    repaired = subprocess.run(
        [sys.executable, "-m", "streaming", *words, "--apply"], capture_output=True, text=True, check=False, timeout=600
    )
    assert repaired.returncode == 0, repaired
    assert "spark/ is moved away" in repaired.stdout
    job.start()
    wait_until_delivered(job)
    lab.resume(*lab.controllers[:2])
    wait_until_resolved(job, within_s=180, rules=["no-leader"])
    wait_until_delivered(job)

    assert [each.state for each in job.alerts() if each.rule == "no-leader"] == ["firing", "resolved"]
