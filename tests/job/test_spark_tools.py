"""Spark's own tools work with the job: its UI and its event log."""

import json
from pathlib import Path

import pytest
import requests

from deploy.lab.addresses import Ports
from tests.job.configured_job import ConfiguredJob
from tests.job.job_state import wait_until_evaluated

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def test_the_query_is_in_the_ui_and_in_the_event_log(folder: Path) -> None:
    """No controller answers: failed observations are rows too."""
    events, port = folder / "events", Ports().claim()
    events.mkdir()
    job = ConfiguredJob(folder=folder / "job", bootstrap=(), name="test")
    job.write_config(
        clusters=[{"name": "test", "bootstrap": ["127.0.0.1:1"], "cluster_id": "MkU3OEVBNTcwNTJENDM2Qg"}],
        spark={
            "spark.ui.enabled": "true",
            "spark.ui.port": str(port),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{events}",
            "spark.eventLog.compress": "false",
        },
    )
    with job:
        wait_until_evaluated(job)
        page = requests.get(f"http://127.0.0.1:{port}/StreamingQuery/", timeout=60).text
        assert ">kraftwatch<" in page
        (application,) = requests.get(f"http://127.0.0.1:{port}/api/v1/applications", timeout=60).json()
        assert application["name"] == "kraftwatch"

    files = events.glob("eventlog_v2_*/events_*")
    logged = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    progress = [one["progress"] for one in logged if one["Event"].endswith("QueryProgressEvent")]
    assert {one["name"] for one in progress} == {"kraftwatch"}
