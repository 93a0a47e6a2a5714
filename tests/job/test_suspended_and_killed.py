"""A job goes on whose host was suspended, whose Spark was killed, or whose disk is full: nothing starts it again."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from connectors.delivery.ledger import stored_alerts
from connectors.store.tables import sqlite_database
from deploy.lab.lab import Lab
from tests.chaos import small_disk
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob, section
from tests.job.delayed_java import java_that_waits_for
from tests.job.job_processes import (
    assert_works,
    health,
    is_driver,
    is_java,
    is_python_of_spark,
    processes,
    resume_if_running,
)

pytestmark = [pytest.mark.lab, pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(900)]

LAB = {"controllers": 1, "brokers": 0}
TIMEOUT_S = 12
"""After so long without a heartbeat Spark takes an executor for lost; by default after 120 s."""
SPARK = {"spark.network.timeout": f"{TIMEOUT_S}s", "spark.network.timeoutInterval": "2s"}


@pytest.fixture
def continues(tmp_path: Path) -> Path:
    """While this file exists, Java starts."""
    file = tmp_path / "continues"
    file.touch()
    return file


@pytest.fixture
def job(lab: Lab, tmp_path: Path, continues: Path) -> Iterator[ConfiguredJob]:
    job = ConfiguredJob(folder=tmp_path / "job", bootstrap=(), name="test")
    job.environment = {"JAVA_HOME": str(java_that_waits_for(continues))}
    thresholds = {"alerts": {"clear": 1}, "monitor-blind": {"hold": 2}}
    job.write_config(clusters=[section("test", lab)], thresholds=thresholds, spark=SPARK)
    with job:
        yield job


def assert_daemons(job: ConfiguredJob, count: int) -> None:
    """Asserts that Spark has so many Python daemons; their workers have the same command."""
    java = {one.pid for one in processes(job, is_java)}
    found = [one for one in processes(job, lambda command: "pyspark.daemon" in command) if one.ppid() in java]
    assert len(found) == count, found


def wait_for_batches(job: ConfiguredJob, count: int = 3) -> None:
    """Waits for batches that are completed from now on."""
    file = job.checkpoint / "spark" / "commits"
    # None may be yet: the job was suspended during its first one.
    newest = max((int(each.name) for each in file.iterdir() if each.name.isdecimal()), default=-1)
    eventually(lambda: assert_committed(job, newest + count), within_s=90)


def assert_committed(job: ConfiguredJob, number: int) -> None:
    assert (job.checkpoint / "spark" / "commits" / str(number)).exists()


@contextmanager
def outage(lab: Lab) -> Iterator[None]:
    """All controllers are paused."""
    lab.pause(*lab.controllers)
    try:
        yield
    finally:
        lab.resume(*lab.controllers)


@pytest.mark.parametrize(
    "suspended", [lambda _: True, is_driver, is_java], ids=["the host", "the driver alone", "Java alone"]
)
def test_a_job_that_was_suspended_goes_on(job: ConfiguredJob, suspended: Callable[[Sequence[str]], bool]) -> None:
    (java,) = processes(job, is_java)
    stopped = processes(job, suspended)
    for one in stopped:
        one.suspend()
    try:
        # The time itself is the fault: so long Spark hears nothing.
        psutil.wait_procs(stopped, timeout=2 * TIMEOUT_S)
    finally:
        for one in stopped:
            one.resume()
    wait_for_batches(job)
    eventually(lambda: assert_works(job), within_s=30)

    assert processes(job, is_java) == [java]
    assert "Removing executor" not in (job.checkpoint / "log" / "spark.log").read_text()
    assert not job.logged("Spark is started again")


def test_spark_whose_python_processes_are_killed_is_started_again_inside_the_job(job: ConfiguredJob) -> None:
    """Also after the daemons that Spark started only to begin the query have ended."""
    eventually(lambda: assert_daemons(job, 1), within_s=180)
    for one in processes(job, is_python_of_spark):
        one.kill()
    eventually(lambda: assert_logged(job, "Spark is started again: the streaming query "), within_s=30)
    eventually(lambda: assert_works(job), within_s=120)
    wait_for_batches(job)

    assert not job.has_ended
    assert not any(job.logged(advice) for advice in ("move ", "restart the job", "Traceback"))


def test_an_outage_is_notified_while_java_is_started_again(job: ConfiguredJob, lab: Lab, continues: Path) -> None:
    (java,) = processes(job, is_java)
    continues.unlink()
    java.kill()
    eventually(lambda: assert_logged(job, "Spark is started again: the streaming query "), within_s=30)
    with outage(lab):
        job.wait_for("monitor-blind", within_s=60)
        assert health(job)["status"] == "waiting for spark"
        continues.touch()
    job.wait_for("monitor-blind", "resolved", within_s=120)
    eventually(lambda: assert_works(job), within_s=60)
    assert [one.state for one in job.alerts() if one.rule == "monitor-blind"] == ["firing", "resolved"]


def test_an_outage_is_notified_while_the_disk_of_the_job_is_full(lab: Lab, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    job = ConfiguredJob(folder=tmp_path / "job", bootstrap=(), name="test")
    mounted = f'mount -t tmpfs -o size=60m tmpfs {disk} && exec "$@"'
    job.prefix = ("unshare", "--map-root-user", "--mount", "sh", "-c", mounted, "sh")
    thresholds = {"alerts": {"clear": 1}, "monitor-blind": {"hold": 2}, "monitor-degraded": {"hold": 5}}
    job.write_config(clusters=[section("test", lab)], checkpoint=str(disk / "checkpoint"), thresholds=thresholds)
    with job, ExitStack() as paused:
        # The job has it in a mount namespace of its own.
        inside = Path(f"/proc/{job.pid}/root{disk}")
        eventually(lambda: fill_again(inside, job), within_s=60)
        paused.enter_context(outage(lab))
        eventually(lambda: fill_again(inside, job, "monitor-blind"), within_s=60)
        assert not job.has_ended

        for filling in inside.glob("filling*"):
            filling.unlink()
        paused.close()
        for rule in ("monitor-degraded", "monitor-blind"):
            job.wait_for(rule, "resolved", within_s=120)
        eventually(lambda: assert_works(job), within_s=120)
        # On a busy machine the job is also degraded because it is late: an alert of its own.
        sent = [(one.rule, one.subject, one.state) for one in job.alerts() if one.rule != "failure-tolerance"]
        # SQLite would follow the link to another root.
        for file in ("kraftwatch.db", "kraftwatch.db-wal"):
            shutil.copyfile(inside / "checkpoint" / file, tmp_path / file)
    recorded = [(one.rule, one.subject, one.state.value) for one in stored_alerts(sqlite_database(tmp_path))]
    assert sorted(sent) == sorted({*sent})
    assert set(sent) <= set(recorded)


def fill_again(disk: Path, job: ConfiguredJob, rule: str = "monitor-degraded") -> None:
    """Leaves no space, which files that are replaced have given, and asserts that a rule fires."""
    if job.has_ended:
        pytest.fail(job.newest_output())
    small_disk.fill(disk, f"filling-{time.monotonic_ns()}")
    assert rule in [one.rule for one in job.firing()]


@pytest.mark.long
@pytest.mark.parametrize("hanging", [is_python_of_spark, is_java], ids=["Python", "Java"])
def test_an_outage_is_notified_while_spark_hangs_which_is_started_again(
    job: ConfiguredJob, lab: Lab, hanging: Callable[[Sequence[str]], bool]
) -> None:
    """It takes five minutes: so long a batch may take."""
    with ExitStack() as suspended:
        for one in processes(job, hanging):
            suspended.callback(resume_if_running, one)
            one.suspend()
        eventually(lambda: assert_logged(job, "Spark completes no batch"), within_s=60)
        with outage(lab):
            job.wait_for("monitor-blind", within_s=60)
        job.wait_for("monitor-blind", "resolved", within_s=60)
        eventually(
            lambda: assert_logged(job, "Spark is started again: Spark has completed no batch for "), within_s=120
        )
        eventually(lambda: assert_works(job), within_s=60)
        wait_for_batches(job)
    assert [one.state for one in job.alerts() if one.rule == "monitor-blind"] == ["firing", "resolved"]


def assert_logged(job: ConfiguredJob, text: str) -> None:
    assert job.logged(text)
