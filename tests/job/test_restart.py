"""A job that starts again: alerts before Spark is up, its files, and its end.

A killed gatherer is in tests/kafka/test_gather.py, a killed job in test_relay_job.py and `make chaos FAULTS=kill`.
"""

import fnmatch
import json
import os
import shutil
import signal
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from deploy.lab.lab import Lab
from streaming.demo.job_process import STOP_S, JobProcess
from tests.eventually import eventually
from tests.job.conftest import short_thresholds
from tests.job.job_state import get_json, wait_until_delivered, wait_until_resolved
from tests.sinks.server import HttpDouble, serving

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.timeout(900)]


SPARK_FILES = ("spark/offsets/[0-9]*", "spark/commits/[0-9]*", "spark/state/*.changelog", "spark/state/*.zip")


@pytest.fixture(scope="module", autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(scope="module")
def settings() -> dict[str, float]:
    return short_thresholds("no-leader")


def test_files_of_the_checkpoint_and_of_the_jsonl_sink_are_for_the_owner_alone(job: JobProcess) -> None:
    def written() -> dict[str, int]:
        found = modes(job.checkpoint)
        # Of each writer: the gatherer, the driver, and Java for the query, for state changes and for state snapshots.
        for pattern in ("journal/*", "log/gather-stats.json", "log/spark.log", *SPARK_FILES):
            assert fnmatch.filter(found, pattern), pattern
        return found

    found = eventually(written, within_s=120)

    wider = {name: oct(mode) for name, mode in found.items() if mode & 0o077}
    assert wider == {}
    assert len(found) > 50
    assert stat.S_IMODE(job.jsonl.stat().st_mode) == 0o600


@pytest.mark.long
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
        lab.pause(*lab.controllers[:2])
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
        lab.resume(*lab.controllers[:2])
        wait_until_resolved(job)
        eventually(lambda: webhook_reasons(server) == ["firing", "resolved"], within_s=90)
    job.settings, job.arguments, job.environment = before

    assert health["status"] == "starting"
    assert (page["status"], page["health"]) == (None, "critical")
    lines = [one for one in job.alerts()[since:] if one.rule == "no-leader"]
    assert [(one.state, one.started_at) for one in lines] == [
        ("firing", firing.started_at),
        ("resolved", firing.started_at),
    ]


def test_sigterm_to_the_process_group_stops_without_errors(job: JobProcess) -> None:
    log_size = job.log.stat().st_size

    # As systemd does.
    os.killpg(job.pid, signal.SIGTERM)

    assert job.wait(STOP_S) == 0
    assert job.log.read_bytes()[log_size:] == b""


def page_with_alert(job: JobProcess) -> dict[str, Any]:
    page = get_json(job, "/api/clusters/test")
    assert [one["rule"] for one in page["firing"]] == ["no-leader"]
    return page


def java_that_waits_for(file: Path) -> Path:
    """Returns a JAVA_HOME whose Java starts once the file exists."""
    real = os.environ["JAVA_HOME"] + "/bin/java" if "JAVA_HOME" in os.environ else shutil.which("java")
    java = file.parent / "java-home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\nwhile [ ! -e {file} ]; do sleep 0.1; done\nexec {real} "$@"\n')
    java.chmod(0o755)
    return java.parent.parent


def webhook_reasons(server: HttpDouble) -> list[str]:
    return [json.loads(request.body)["reason"] for request in server.requests]


def modes(folder: Path) -> dict[str, int]:
    """Returns the permissions of everything in the folder, and its own as `.`."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            path = Path(parent, name)
            # Spark deletes temporary files while the job runs.
            with suppress(FileNotFoundError):
                found[str(path.relative_to(folder))] = stat.S_IMODE(path.lstat().st_mode)
    return found
