"""A job whose other clusters flood it with records reports so, and alerts about the healthy one."""

from pathlib import Path

import pytest

from tests.hostile.live_floods import flooded_job

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def test_two_floods_do_not_keep_the_job_from_alerting_about_another_cluster(folder: Path) -> None:
    with flooded_job(folder) as (job, lab):
        reported = job.wait_for("monitor-degraded", subject="log of flood-of-features")
        lab.kill(1)
        alert = job.wait_for("no-leader")

    assert "grows faster than kraftwatch evaluates it" in reported.line["summary"]
    assert (alert.line["cluster"], alert.state) == ("healthy", "firing")
