"""The wheel on a Spark cluster: executors have the locked dependencies, and of kraftwatch only what the job sends."""

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcess
from tests.bench.job_cost import newest_batch
from tests.eventually import eventually
from tests.job.conftest import short_thresholds
from tests.job.other_python import python_without_kraftwatch
from tests.job.spark_cluster import executor_processes, standalone_cluster
from tests.wheel import install_wheel

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.long
def test_job_continues_without_its_executors_without_a_worker_and_by_spark_submit(folder: Path, lab: Lab) -> None:
    with standalone_cluster(folder / "spark-2", workers=2) as master:
        run = JobProcess(
            folder=folder / "job-2",
            name="test",
            bootstrap=lab.bootstrap,
            settings=short_thresholds("no-leader"),
            arguments=["--master", master],
            environment={"PYSPARK_PYTHON": str(python_without_kraftwatch(folder))},
        )
        with run:
            for executor in executor_processes(folder / "spark-2"):
                executor.kill()
            lab.pause(*lab.controllers[:2])
            alert = run.wait_for("no-leader")
            # The early evaluation may have sent it while the executors start.
            lost = eventually(lambda: executor_with_state(folder / "spark-2"), within_s=60)
            worker = lost.parent()
            assert worker is not None
            # The worker would start another executor.
            for process in (worker, lost):
                process.kill()
            batch = newest_batch(run)
            # The state moves within 30 s.
            eventually(lambda: newest_batch(run) >= batch + 2, within_s=30)
        with submitted(folder, lab, master) as continued:
            lab.resume(*lab.controllers[:2])
            continued.wait_for("no-leader", "resolved", since=alert.number)


@pytest.mark.long
def test_a_checkpoint_that_executors_do_not_share_is_refused(folder: Path, lab: Lab) -> None:
    """Spark would report success: the state would lie on the executor's disk, and be lost with it."""
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this user may not make mount namespaces")
    job = folder / "job-3"
    job.mkdir()
    with standalone_cluster(folder / "spark-3", workers=1, hidden=job) as master:
        options = [
            "--master",
            master,
            "--checkpoint",
            str(job / "checkpoint"),
            "--sink",
            f"jsonl:{job / 'alerts.jsonl'}",
        ]
        ended = subprocess.run(
            [sys.executable, "-m", "streaming", "run", "--cluster", f"test={','.join(lab.bootstrap)}", *options],
            env={**os.environ, "PYSPARK_PYTHON": str(python_without_kraftwatch(folder))},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    sentence = ended.stderr.strip().splitlines()[-1]
    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False), ended.stderr
    assert f"does not share {job / 'checkpoint' / 'log' / 'executors'} with the driver: mount one folder" in sentence


def submitted(folder: Path, lab: Lab, master: str) -> "SubmittedJob":
    """Returns the job of the wheel; its executors have the dependencies and not kraftwatch."""
    environment = folder / "wheel"
    environment.mkdir()
    python = install_wheel(environment) / "python"
    return SubmittedJob(
        folder=folder / "job-2",
        name="test",
        bootstrap=lab.bootstrap,
        settings=short_thresholds("no-leader"),
        environment={"PYSPARK_PYTHON": str(python_without_kraftwatch(folder)), "PYSPARK_DRIVER_PYTHON": str(python)},
        master=master,
    )


def executor_with_state(folder: Path) -> psutil.Process:
    """Returns an executor that has state: it has loaded RocksDB."""
    found = [
        executor
        for executor in executor_processes(folder)
        if any("rocksdb" in each.path for each in executor.memory_maps())
    ]
    assert found
    return found[0]


@dataclass(slots=True, kw_only=True)
class SubmittedJob(JobProcess):
    """The job, started by spark-submit."""

    master: str

    def command(self) -> list[str]:
        submit = Path(sysconfig.get_path("scripts")) / "spark-submit"
        java = "-Xss16m -XX:+ExitOnOutOfMemoryError -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
        options = ["--master", self.master, "--driver-memory", "512m", "--driver-java-options", java]
        (job,) = (
            Path(self.environment["PYSPARK_DRIVER_PYTHON"]).parents[1].glob("lib/*/*/deploy/spark/kraftwatch_job.py")
        )
        return [str(submit), *options, str(job), *JobProcess.command(self)[4:]]
