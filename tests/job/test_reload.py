"""A job reloads its changed configuration while it runs on a real quorum: no alert is repeated or lost."""

import json
import os
import signal
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from connectors.process.wall_clock import wall_ms
from deploy.lab.lab import Lab
from tests.eventually import eventually
from tests.farm.farm import address
from tests.farm.farm_process import cluster_name, running_farm
from tests.job.busy_processes import busy_prefix
from tests.job.configured_job import ConfiguredJob, second_section, section
from tests.job.job_state import files_in
from tests.sinks.server import HttpDouble

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.live, pytest.mark.timeout(900)]

LAB = {"controllers": 1, "brokers": 0}
HOLD_S = 5
"""The default of no-leader."""
SECRET = "do-not-print-me"
NO_ALERTS = {"failure-tolerance": {"hold": 3600}}
FIRE_SOON = {"quorum-shape": {"hold": 1}}
"""quorum-shape fires for a quorum of one voter after an hour by default."""


@pytest.fixture
def job(folder: Path, lab: Lab, request: pytest.FixtureRequest) -> Iterator[ConfiguredJob]:
    job = ConfiguredJob(folder=folder / request.node.name, bootstrap=())
    job.write_config(clusters=[section("first", lab)], thresholds=NO_ALERTS)
    with job:
        yield job


def alert_counts(path: Path) -> Counter[tuple[str, str]]:
    """Returns how often each cluster's quorum-shape fired and resolved; a stall of the machine may fire other rules."""
    lines = map(json.loads, path.read_text().split("\n")[:-1] if path.exists() else [])
    return Counter((line["cluster"], line["state"]) for line in lines if line["rule"] == "quorum-shape")


def test_changed_file_is_reloaded_without_a_restart(lab: Lab, job: ConfiguredJob, webhook: HttpDouble) -> None:
    pid, spark = job.pid, java_of(job.pid)
    first = section("first", lab)
    second = second_section("second", lab, job.folder / "hosts", thresholds={"quorum-shape": {"hold": 2}})

    job.file.write_text("clusters: {")
    eventually(lambda: job.logged("line 1: not YAML"), within_s=60)
    job.write_config(clusters=[first], thresholds=NO_ALERTS, master="local[1]")
    eventually(lambda: job.logged("master cannot change while the job runs"), within_s=60)
    assert alert_counts(job.jsonl) == {}

    job.write_config(clusters=[first], thresholds=NO_ALERTS | FIRE_SOON)
    job.wait_for("quorum-shape")

    more = job.folder / "more.jsonl"
    job.write_config(
        clusters=[first, second], thresholds=NO_ALERTS | FIRE_SOON, sinks=[f"jsonl:{job.jsonl}", f"jsonl:{more}"]
    )
    both = {("first", "firing"): 1, ("second", "firing"): 1}
    eventually(lambda: alert_counts(job.jsonl) == both, within_s=60)
    # A new sink receives the active alerts.
    eventually(lambda: alert_counts(more) == both, within_s=60)

    beat = {"url": f"{webhook.url}/{SECRET}", "every": 1}
    metrics = {"url": f"{webhook.url}/v1/metrics", "headers": {"Authorization": SECRET}, "every": 1}
    job.write_config(
        clusters=[first, second],
        watch=["!second"],
        thresholds=NO_ALERTS | FIRE_SOON,
        heartbeat=beat,
        otlp=metrics,
    )
    eventually(lambda: job.logged("was reloaded: changed watch, sinks, heartbeat, otlp"), within_s=60)
    eventually(lambda: {one.path for one in webhook.requests} == {f"/{SECRET}", "/v1/metrics"}, within_s=60)
    os.kill(job.pid, signal.SIGHUP)
    eventually(lambda: job.logged("was reloaded: no change"), within_s=60)

    ended = both | {("second", "resolved"): 1}
    eventually(lambda: alert_counts(job.jsonl) == ended, within_s=60)
    assert alert_counts(more) == both, "it was removed together with the cluster"
    assert (job.pid, java_of(job.pid)) == (pid, spark), "neither the job nor Spark was restarted"
    assert [path for path, content in files_in(job.folder) if SECRET.encode() in content] == [job.file]


@pytest.mark.long
def test_a_leader_that_is_lost_while_the_query_restarts_on_a_busy_machine_is_reported_in_time(
    lab: Lab, folder: Path
) -> None:
    """Ten busy processes share the machine, and twenty clusters change with the configuration."""
    job = ConfiguredJob(folder=folder / "busy", bootstrap=(), start_s=600)
    job.prefix = busy_prefix(10)
    with running_farm(20) as farm:
        clusters = [
            section("first", lab),
            *({"name": cluster_name(each), "bootstrap": [f"{address(each, 1)}:{farm.port}"]} for each in range(20)),
        ]
        job.write_config(clusters=clusters, thresholds=NO_ALERTS)
        with job:
            job.write_config(clusters=clusters, thresholds=NO_ALERTS | {"voter-lagging": {"hold": 60}})
            # The query is being stopped: its last batch ends.
            eventually(lambda: no_batch_for(job, 5), within_s=120)
            lab.kill(*lab.controllers)
            lost_ms = wall_ms()
            job.wait_for("no-leader", within_s=600)
            assert wall_ms() - lost_ms < 1_000 * (HOLD_S + 10), "the hold, and ten seconds"
            eventually(lambda: job.logged("was reloaded: changed thresholds"), within_s=600)
            lab.start(*lab.controllers)
            job.wait_for("no-leader", "resolved", within_s=600)


def no_batch_for(job: ConfiguredJob, seconds: float) -> bool:
    """Whether the job's query has completed no batch for so long: it is restarted."""
    with urllib.request.urlopen(f"http://{job.address}/healthz", timeout=30) as answer:
        return bool(json.load(answer)["seconds_since_last_batch"] > seconds)


def java_of(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children() if child.name() == "java"]
