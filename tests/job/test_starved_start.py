"""The job starts on a machine on which ten busy processes share each core."""

from pathlib import Path

import pytest

from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcess
from tests.job.busy_processes import busy_prefix
from tests.job.job_state import wait_until_delivered

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(3_600)]

START_S = 600.0


def test_job_starts_within_ten_minutes_where_ten_busy_processes_share_each_core(folder: Path, lab: Lab) -> None:
    job = JobProcess(folder=folder / "job", name="test", bootstrap=lab.bootstrap, start_s=START_S)
    job.prefix = busy_prefix()

    # Entered with the first batch.
    with job:
        wait_until_delivered(job)

        assert job.alerts() == []
