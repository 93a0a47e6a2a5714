"""A job takes its changed configuration while it runs: on a real quorum, with nothing alerts twice and nothing lost."""

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcess
from tests.eventually import eventually
from tests.job.process_output import written
from tests.unit.streaming.metrics.heartbeat_server import SECRET, HeartbeatService

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.timeout(900)]

QUIET = {"failure-tolerance": {"hold": 3600}}
SHAPE = {"quorum-shape": {"hold": 1}}
"""A quorum of one voter is alerts of after an hour, unless somebody cannot wait."""


class FromFile(JobProcess):
    """A job that is given nothing but a configuration file."""

    @property
    def file(self) -> Path:
        return self.folder / "kraftwatch.yaml"

    def say(self, **keys: Any) -> None:
        """Write the file, as an editor does."""
        everything = {"checkpoint": str(self.checkpoint), "sinks": [f"jsonl:{self.jsonl}"], **keys}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(yaml.safe_dump(everything))

    def command(self) -> list[str]:
        return [sys.executable, "-m", "streaming", "run", "--config", str(self.file), "--listen", self.address]


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[Lab]:
    with Lab(folder / "lab", controllers=1, brokers=0) as lab:
        yield lab


@pytest.fixture
def job(folder: Path, lab: Lab, request: pytest.FixtureRequest) -> Iterator[FromFile]:
    job = FromFile(folder=folder / request.node.name, bootstrap=())
    job.say(clusters=[section("first", lab)], thresholds=QUIET)
    with job:
        yield job


def section(name: str, lab: Lab, **keys: Any) -> dict[str, Any]:
    return {"name": name, "bootstrap": list(lab.bootstrap), **keys}


def alerts(path: Path) -> Counter[tuple[str, str, str]]:
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return Counter((line["cluster"], line["rule"], line["state"]) for line in map(json.loads, lines))


def test_what_the_file_says_is_in_force_while_the_job_runs_on(lab: Lab, job: FromFile) -> None:
    pid, spark = job.pid, java_of(job.pid)
    first, second = section("first", lab), section("second", lab, thresholds={"quorum-shape": {"hold": 2}})

    job.file.write_text("clusters: {")
    eventually(lambda: said(job, "not YAML at line 1"), within_s=60)
    job.say(clusters=[first], thresholds=QUIET, master="local[1]")
    eventually(lambda: said(job, "master cannot change while the job runs"), within_s=60)
    assert alerts(job.jsonl) == {}

    job.say(clusters=[first], thresholds=QUIET | SHAPE)
    job.wait_for("quorum-shape", within_s=180)

    more = job.folder / "more.jsonl"
    job.say(clusters=[first, second], thresholds=QUIET | SHAPE, sinks=[f"jsonl:{job.jsonl}", f"jsonl:{more}"])
    both = {("first", "quorum-shape", "firing"): 1, ("second", "quorum-shape", "firing"): 1}
    eventually(lambda: same(alerts(job.jsonl), both), within_s=60)
    # A sink that is new is alerts what stands.
    eventually(lambda: same(alerts(more), both), within_s=60)

    with HeartbeatService() as service:
        beat = {"url": service.url, "every": 1}
        job.say(clusters=[first, second], watch={"exclude": ["second"]}, thresholds=QUIET | SHAPE, heartbeat=beat)
        eventually(lambda: said(job, "was read again: it changes watch, sinks, heartbeat"), within_s=60)
        eventually(lambda: beaten(service), within_s=60)
    os.kill(job.pid, signal.SIGHUP)
    eventually(lambda: said(job, "was read again: it changes nothing"), within_s=60)

    assert alerts(job.jsonl) == alerts(more) == both
    assert (job.pid, java_of(job.pid)) == (pid, spark), "neither the job nor Spark was started again"
    assert [path for path, content in written(job.folder) if SECRET.encode() in content] == [job.file]


def test_at_a_restart_a_new_cluster_that_is_away_keeps_no_other_unwatched(lab: Lab, job: FromFile) -> None:
    job.stop()
    hosts = job.folder / "hosts"
    hosts.write_text("")
    new = section("new", lab, bootstrap=[f"new.invalid:{lab.bootstrap[0].rpartition(':')[2]}"], hosts_file=str(hosts))
    job.say(clusters=[new, section("first", lab)], thresholds=SHAPE)
    began = len(job.log.read_text())

    job.start()

    assert "kraftwatch: cluster new: none of new.invalid:" in job.log.read_text()[began:]
    assert "cluster new: none of new.invalid:" in (job.checkpoint / "log" / "driver.log").read_text()
    eventually(lambda: same(alerts(job.jsonl), {("first", "quorum-shape", "firing"): 1}), within_s=60)
    hosts.write_text("127.0.0.1 new.invalid\n")
    both = {("first", "quorum-shape", "firing"): 1, ("new", "quorum-shape", "firing"): 1}
    # It is tried again after half a minute.
    eventually(lambda: same(alerts(job.jsonl), both), within_s=120)
    eventually(lambda: said(job, "was read again: it changes clusters"), within_s=60)


def beaten(service: HeartbeatService) -> None:
    assert service.paths


def said(job: FromFile, text: str) -> None:
    assert text in job.log.read_text()


def same(found: object, expected: object) -> None:
    assert found == expected


def java_of(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children() if child.name() == "java"]
