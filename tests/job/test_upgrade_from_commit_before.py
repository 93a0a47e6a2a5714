"""A job of the commit before is stopped, the cluster has an outage, and this job continues its checkpoint."""

import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from connectors.store.collection import quarantine_of
from connectors.store.tables import job_database
from streaming.demo.job_process import JobProcess, JobProcessError
from tests.job.conftest import await_fetches_of_all_voters, short_thresholds
from tests.job.job_state import wait_until_delivered, wait_until_resolved
from tests.lab import Lab
from tests.sinks.server import HttpDouble, serving

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
PACKAGES = ("streaming", "connectors", "rules", "deploy")
OTHER_STATE = re.compile("has version .*, this kraftwatch reads|written by another version")
"""A state that this commit does not read is refused."""


@pytest.fixture(scope="module")
def commit_before(folder: Path) -> Path:
    """The product's packages of the commit before; what they import comes from the same environment."""
    command = ["git", "-C", str(ROOT), "archive", "HEAD~1", *PACKAGES]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"needs a checkout with the commit before: {archive.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as tar:
        tar.extractall(folder / "before", filter="data")
    code = [sys.executable, "-c", "import streaming; print(streaming.__file__)"]
    used = subprocess.check_output(
        code, env={**os.environ, "PYTHONPATH": str(folder / "before")}, cwd=folder, text=True
    )
    assert Path(used.strip()).is_relative_to(folder), "the packages of the commit before are imported"
    return folder / "before"


@pytest.fixture(scope="module")
def settings() -> dict[str, float]:
    return short_thresholds("no-leader", "voter-disk-replaced")


@pytest.fixture(scope="module")
def server() -> Iterator[HttpDouble]:
    with serving() as server:
        yield server


@pytest.fixture
def job(lab: Lab, settings: dict[str, float], server: HttpDouble, commit_before: Path, tmp_path: Path) -> JobProcess:
    """The job of the commit before; it has not been started."""
    return JobProcess(
        folder=tmp_path,
        name="test",
        bootstrap=lab.bootstrap,
        settings=settings,
        arguments=("--sink", f"webhook:{server.url}/hook"),
        environment={"PYTHONPATH": str(commit_before)},
    )


def upgrade(job: JobProcess) -> None:
    """Starts this job in the place of the one before, which was stopped."""
    job.environment = {}
    try:
        job.start()
    except JobProcessError as refused:
        if OTHER_STATE.search(str(refused)):
            pytest.skip(f"the state of the commit before is refused: {refused}")
        raise


def notified(server: HttpDouble) -> list[tuple[str, str]]:
    """Returns reason and first alert's rule of each notification."""
    documents = [json.loads(request.body) for request in server.requests]
    return [(one["reason"], one["alerts"][0]["rule"]) for one in documents]


def states(job: JobProcess) -> list[tuple[str, str]]:
    """Returns the transitions of the rules that are waited for: each exactly once, whoever sent it."""
    waited = ("no-leader", "voter-disk-replaced")
    return sorted((alert.rule, alert.state) for alert in job.alerts() if alert.rule in waited)


def test_alerts_continue_when_an_outage_ends_between_both_versions(
    lab: Lab, job: JobProcess, server: HttpDouble
) -> None:
    leader = lab.await_state(lambda state: True, what="a leader").leader_id
    replaced = next(node for node in lab.controllers if node != leader)
    with job:
        lab.stop(replaced)
        lab.wipe_disk(replaced)
        lab.start(replaced)
        disk = job.wait_for("voter-disk-replaced", within_s=180)
        lab.pause(leader)
        try:
            outage = job.wait_for("no-leader", within_s=180)
            wait_until_delivered(job)
            job.stop()
        finally:
            lab.resume(leader)
        lab.await_state(lambda state: True, what="a leader")

        upgrade(job)
        ended = job.wait_for("no-leader", "resolved", within_s=180)
        for line in disk.remedy:
            lab.run_remedy(line, node_properties=lab.node(replaced).properties_file)
        resolved = job.wait_for("voter-disk-replaced", "resolved", within_s=180)
        wait_until_resolved(job, within_s=180)
        wait_until_delivered(job)

        assert states(job) == [
            ("no-leader", "firing"),
            ("no-leader", "resolved"),
            ("voter-disk-replaced", "firing"),
            ("voter-disk-replaced", "resolved"),
        ]
        assert (outage.started_at, disk.started_at) == (ended.started_at, resolved.started_at)
        assert quarantine_of(job_database(job.checkpoint, read_only=True)).items() == {}


def test_outage_that_begins_between_both_versions_is_notified_once(
    lab: Lab, job: JobProcess, server: HttpDouble
) -> None:
    await_fetches_of_all_voters(lab)
    before = len(server.requests)
    with job:
        wait_until_delivered(job)
        job.stop()
        lab.pause(*lab.controllers[:2])

        try:
            upgrade(job)
            job.wait_for("no-leader", within_s=180)
        finally:
            lab.resume(*lab.controllers[:2])
        wait_until_resolved(job, within_s=180)
        wait_until_delivered(job)

        assert states(job) == [("no-leader", "firing"), ("no-leader", "resolved")]
    assert notified(server)[before:] == [("firing", "no-leader"), ("resolved", "no-leader")]
