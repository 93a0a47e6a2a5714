"""A real job whose store is on a PostgreSQL server: outages of the server lose nothing and send nothing twice."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcessError
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob, section
from tests.job.relay_process import RelayProcess
from tests.postgres_server import PostgresServer, needs_postgres
from tests.sinks.server import HttpDouble

pytestmark = [needs_postgres, pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

LAB = {"controllers": 1, "brokers": 0}
THRESHOLDS = {
    "failure-tolerance": {"hold": 3600},
    "alerts": {"clear": 1},
    "quorum-shape": {"hold": 1},
    "monitor-blind": {"hold": 15},
}


def test_a_store_that_is_down_delays_alerts_and_a_killed_job_goes_on_from_it(
    lab: Lab, postgres: PostgresServer, webhook: HttpDouble, tmp_path: Path
) -> None:
    job = ConfiguredJob(folder=tmp_path / "job", bootstrap=(), name="prod")
    store = postgres.database("kraftwatch").url
    job.write_config(
        clusters=[section("prod", lab)],
        thresholds=THRESHOLDS,
        store=store,
        sinks=[{"webhook": {"url": f"{webhook.url}/people", "repeat": "never"}}],
    )
    with job:
        eventually(lambda: assert_notified(webhook, [("quorum-shape", "firing")]), within_s=120)
        assert silences(job, "add", "--rule", "epoch-churn", "--for", "1h", "--comment", "a test")
        assert "epoch-churn" in silences(job, "list", "--json")

        postgres.stop()
        lab.pause(*lab.controllers)
        eventually(lambda: has_awaited(job, 1), within_s=60)
        job.kill()
        # The job ends with the thread that starts it.
        with ThreadPoolExecutor(1) as pool:
            returned = pool.submit(start_once_awaited, postgres, job)
            job.start()
            returned.result()
        fired = [("quorum-shape", "firing"), ("monitor-blind", "firing")]
        eventually(lambda: assert_notified(webhook, fired), within_s=120)

        lab.resume(*lab.controllers)
        eventually(lambda: assert_notified(webhook, [*fired, ("monitor-blind", "resolved")]), within_s=60)
    assert not list(job.checkpoint.glob("kraftwatch.db*"))
    assert postgres.sql("SELECT count(*) FROM alerts", "kraftwatch") == "3"


def test_a_second_job_on_one_checkpoint_is_refused_until_the_first_has_ended(
    lab: Lab, relay: RelayProcess, postgres: PostgresServer, tmp_path: Path
) -> None:
    store, place = postgres.database("shared").url, f"file:{tmp_path / 'spark'}"

    def job_in(name: str) -> ConfiguredJob:
        job = ConfiguredJob(folder=tmp_path / name, bootstrap=(), name="prod")
        job.write_config(
            clusters=[section("test", lab)],
            source="kafka",
            relay=relay.section,
            store=store,
            checkpoint=place,
            work_dir=str(tmp_path / name / "work"),
        )
        return job

    first, second = job_in("first"), job_in("second")
    with first:
        with pytest.raises(JobProcessError):
            second.start()
        assert second.logged(f"checkpoint file://{tmp_path / 'spark'} is used by another job that shares the store")
        assert not first.has_ended
    with second:
        assert not second.has_ended


def start_once_awaited(server: PostgresServer, job: ConfiguredJob) -> None:
    eventually(lambda: has_awaited(job, 2), within_s=60)
    server.start()


def has_awaited(job: ConfiguredJob, times: int) -> bool:
    """Whether the job has said so often that it waits for the store."""
    return job.log.read_text().count("; waiting for it") == times


def assert_notified(webhook: HttpDouble, expected: list[tuple[str, str]]) -> None:
    bodies: list[dict[str, Any]] = [json.loads(each.body) for each in webhook.requests]
    assert [(each["alerts"][0]["rule"], each["reason"]) for each in bodies] == expected


def silences(job: ConfiguredJob, *arguments: str) -> str:
    command = [sys.executable, "-m", "streaming", "silence", *arguments, "--config", str(job.file)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
