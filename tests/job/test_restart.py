"""A job that starts again: alerts before Spark is up.

Its files and its end are in test_fault_scenarios.py, a killed gatherer is in tests/kafka/test_gather.py, a killed job
in test_relay_job.py and `make chaos FAULTS=kill`.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from streaming.demo.job_process import JobProcess
from tests.eventually import eventually
from tests.job.conftest import short_thresholds
from tests.job.delayed_java import java_that_waits_for
from tests.job.job_state import get_json, wait_until_delivered, wait_until_resolved
from tests.job.jobs_with_a_store import documents
from tests.lab import Lab
from tests.sinks.server import HttpDouble, serving

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def settings() -> dict[str, float]:
    return short_thresholds("no-leader")


def test_missing_leader_is_notified_once_although_spark_is_not_up_yet(
    lab: Lab, job: JobProcess, settings: dict[str, float], tmp_path: Path
) -> None:
    job.stop()
    since, before = len(job.alerts()), (job.settings, job.arguments, job.environment)
    continues = tmp_path / "continues"
    job.environment = {"JAVA_HOME": str(java_that_waits_for(continues))}
    job.settings = {**settings, "no-leader.hold": 10.0}
    with serving() as server, ThreadPoolExecutor(max_workers=1) as pool:
        job.arguments = ("--sink", f"webhook:{server.url}/hook")
        # The leader that remains resigns. A follower would name the one that hangs, and the start knows no other voter.
        followers = lab.followers
        lab.pause(*followers)
        started = pool.submit(job.start)
        try:
            firing = job.wait_for("no-leader", since=since)
            eventually(lambda: webhook_reasons(server) == ["firing"], within_s=60)
            page = eventually(lambda: page_with_alert(job), within_s=60)
            health = get_json(job, "/healthz")
        finally:
            continues.touch()
            started.result()
        wait_until_delivered(job)
        lab.resume(*followers)
        wait_until_resolved(job)
        eventually(lambda: webhook_reasons(server) == ["firing", "resolved"], within_s=90)
    job.settings, job.arguments, job.environment = before

    assert health["status"] == "starting"
    assert (page["status"], page["health"]) == (None, "critical")
    lines = [one for one in job.alerts()[since:] if one.rule == "no-leader"]
    assert [*dict.fromkeys((one.state, one.started_at) for one in lines)] == [
        ("firing", firing.started_at),
        ("resolved", firing.started_at),
    ]


def page_with_alert(job: JobProcess) -> dict[str, Any]:
    page = get_json(job, "/api/clusters/test")
    assert [one["rule"] for one in page["firing"]] == ["no-leader"]
    return page


def webhook_reasons(server: HttpDouble) -> list[str]:
    return [body["reason"] for _, body in documents(server)]
