"""Spark's own tools work with the job: its UI, its event log, and the listeners of a user."""

import json
import subprocess
from pathlib import Path

import pytest
import requests

from deploy.lab.addresses import Ports
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob
from tests.job.spark_cluster import HOME

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def test_the_query_is_in_the_ui_in_the_event_log_and_in_a_users_listeners(folder: Path) -> None:
    """No controller answers: failed observations are rows too."""
    classes, events, port = folder / "classes", folder / "events", Ports().claim()
    for each in (classes, events):
        each.mkdir()
    source = Path(__file__).with_name("UserListeners.java")
    subprocess.run(["javac", "-cp", f"{HOME}/jars/*", "-d", str(classes), str(source)], check=True)
    job = ConfiguredJob(folder=folder / "job", bootstrap=(), environment={"LISTENED": str(folder)})
    job.write_config(
        clusters=[{"name": "test", "bootstrap": ["127.0.0.1:1"], "cluster_id": "MkU3OEVBNTcwNTJENDM2Qg"}],
        spark={
            "spark.ui.enabled": "true",
            "spark.ui.port": str(port),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{events}",
            "spark.eventLog.compress": "false",
            "spark.driver.extraClassPath": str(classes),
            "spark.extraListeners": "UserListeners$Jobs",
            "spark.sql.streaming.streamingQueryListeners": "UserListeners$Queries",
        },
    )
    with job:
        eventually(lambda: (folder / "queries").exists(), within_s=60)
        page = requests.get(f"http://127.0.0.1:{port}/StreamingQuery/", timeout=30).text
        assert ">kraftwatch<" in page
        (application,) = requests.get(f"http://127.0.0.1:{port}/api/v1/applications", timeout=30).json()
        assert application["name"] == "kraftwatch"

    assert {line.split()[0] for line in (folder / "queries").read_text().splitlines()} == {"kraftwatch"}
    assert (folder / "jobs").read_text()
    files = events.glob("eventlog_v2_*/events_*")
    logged = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    progress = [one["progress"] for one in logged if one["Event"].endswith("QueryProgressEvent")]
    assert {one["name"] for one in progress} == {"kraftwatch"}
