"""The job killed with -9 in the middle of a scene: what it alerts and tells is as if it had never been killed."""

import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from deploy.lab.lab import Lab
from streaming.demo.job_process import AlertLine, JobProcess
from tests.eventually import eventually
from tests.job.conftest import holding
from tests.job.job_state import terminate_group, wait_until_delivered, wait_until_resolved

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def settings() -> dict[str, float]:
    return holding("voter-disk-replaced", "no-leader")


def essence(alerts: list[AlertLine]) -> list[tuple[str, str, str]]:
    return [(each.rule, each.subject, each.state) for each in alerts]


def test_killed_before_it_told_and_again_before_it_resolved(lab: Lab, job: JobProcess) -> None:
    leader = lab.await_state(lambda state: True, what="a leader").leader_id
    node = next(node for node in lab.controllers if node != leader)
    lab.stop(node)
    lab.wipe_disk(node)
    lab.start(node)
    lab.await_state(lambda state: node in {each.id for each in state.observers}, what="the new disk as an observer")

    job.kill()
    job.start()

    firing = job.wait_for("voter-disk-replaced", within_s=180)
    for line in firing.remedy:
        lab.run_remedy(line, node_properties=lab.node(node).properties_file)

    job.kill()
    job.start()

    job.wait_for("voter-disk-replaced", "resolved", within_s=180)
    job.kill()
    job.start()
    wait_until_delivered(job)

    assert essence(job.alerts()) == [
        ("voter-disk-replaced", f"controller {node}", "firing"),
        ("voter-disk-replaced", f"controller {node}", "resolved"),
    ]


def test_a_gatherer_that_dies_is_started_again_and_nothing_is_lost(lab: Lab, job: JobProcess) -> None:
    since = len(job.alerts())
    children = gatherers(job.pid)
    assert len(children) == 1

    children[0].kill()

    def another() -> None:
        now = gatherers(job.pid)
        assert len(now) == 1
        assert now[0].pid != children[0].pid

    eventually(another, within_s=60)
    lab.pause(*lab.controllers[:2])
    job.wait_for("no-leader", since=since, within_s=180)
    lab.resume(*lab.controllers[:2])
    wait_until_resolved(job, within_s=180)


def test_the_gatherer_ends_with_the_job_however_that_ends(job: JobProcess) -> None:
    (gatherer,) = gatherers(job.pid)

    job.kill()

    eventually(lambda: ended(gatherer), within_s=60)
    job.start()


def test_told_to_stop_as_a_group_it_stops_in_good_order_and_says_nothing_of_it(job: JobProcess) -> None:
    said = job.log.stat().st_size

    code = terminate_group(job)

    assert code == 0
    assert job.log.read_bytes()[said:] == b""
    job.start()


def test_a_python_that_is_late_for_spark_is_started_again(job: JobProcess, tmp_path: Path) -> None:
    job.stop()
    job.environment = {"PYSPARK_PYTHON": str(late_once(tmp_path))}

    job.start()

    assert (tmp_path / "was-late").exists()
    assert "another attempt" in (job.checkpoint / "log" / "driver.log").read_text()


def late_once(folder: Path) -> Path:
    """A Python that takes longer to begin than the 10 s that Spark waits for the one that plans a stream; once."""
    python = folder / "python"
    late = f'case "$*" in *streaming_source_runner*) mkdir {folder}/was-late 2>/dev/null && sleep 20;; esac'
    python.write_text(f'#!/bin/sh\n{late}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def ended(process: psutil.Process) -> bool:
    """It is gone, or only its parent has not asked yet how it ended."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def gatherers(pid: int) -> list[psutil.Process]:
    def gathers(child: psutil.Process) -> bool:
        with suppress(psutil.Error):  # it ended as it was looked at
            return not ended(child) and "connectors.gather" in child.cmdline()
        return False

    return [child for child in psutil.Process(pid).children() if gathers(child)]
