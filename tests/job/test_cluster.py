"""The wheel on a Spark cluster: executors that have the locked dependencies, and of us only what the job sends."""

import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcess
from tests.job.conftest import holding
from tests.job.spark_cluster import standalone
from tests.wheel import installed

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.timeout(900)]


def test_the_wheel_runs_by_spark_submit_on_a_master_with_two_workers(folder: Path, lab: Lab) -> None:
    with standalone(folder / "spark", workers=2) as master:
        with submitted(folder, lab, master) as job:
            lab.pause(*lab.controllers[:2])
            alert = job.wait_for("no-leader", within_s=180)
            lab.resume(*lab.controllers[:2])
            job.wait_for("no-leader", "resolved", since=alert.number, within_s=180)
        assert executors(folder), "the work was done by the workers' executors"


@pytest.mark.long
def test_what_run_began_on_a_master_goes_on_without_its_executors_and_by_spark_submit(folder: Path, lab: Lab) -> None:
    with standalone(folder / "spark-too", workers=2) as master:
        run = JobProcess(
            folder=folder / "watch-too",
            name="test",
            bootstrap=lab.bootstrap,
            settings=holding("no-leader"),
            arguments=["--master", master],
            environment={"PYSPARK_PYTHON": str(stranger(folder))},
        )
        with run:
            for executor in executors_in(folder / "spark-too"):
                executor.kill()
            lab.pause(*lab.controllers[:2])
            alert = run.wait_for("no-leader", within_s=180)
        with submitted(folder, lab, master, watch="watch-too") as goes_on:
            lab.resume(*lab.controllers[:2])
            goes_on.wait_for("no-leader", "resolved", since=alert.number, within_s=180)


def submitted(folder: Path, lab: Lab, master: str, *, watch: str = "watch") -> "Submitted":
    """The job of the wheel; executors have the dependencies, and nothing of us."""
    environment = folder / f"wheel-of-{watch}"
    environment.mkdir()
    python = installed(environment) / "python"
    return Submitted(
        folder=folder / watch,
        name="test",
        bootstrap=lab.bootstrap,
        settings=holding("no-leader"),
        environment={"PYSPARK_PYTHON": str(stranger(folder)), "PYSPARK_DRIVER_PYTHON": str(python)},
        master=master,
    )


def executors(folder: Path) -> list[Path]:
    return [path for path in (folder / "spark").glob("worker-*/app-*/*/stderr") if path.stat().st_size]


def executors_in(folder: Path) -> list[psutil.Process]:
    found = [
        process
        for process in psutil.process_iter(["cwd", "cmdline"])
        if Path(process.info["cwd"] or "/").is_relative_to(folder)
        and any("CoarseGrainedExecutorBackend" in part for part in process.info["cmdline"] or ())
    ]
    assert found
    return found


@dataclass(slots=True, kw_only=True)
class Submitted(JobProcess):
    """The same job, started by spark-submit."""

    master: str

    def command(self) -> list[str]:
        submit = Path(sysconfig.get_path("scripts")) / "spark-submit"
        java = "-Xss16m -XX:+ExitOnOutOfMemoryError -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
        options = ["--master", self.master, "--driver-memory", "512m", "--driver-java-options", java]
        (job,) = (
            Path(self.environment["PYSPARK_DRIVER_PYTHON"]).parents[1].glob("lib/*/*/deploy/spark/kraftwatch_job.py")
        )
        return [str(submit), *options, str(job), *JobProcess.command(self)[4:]]


def stranger(folder: Path) -> Path:
    """A Python that has every dependency and does not have us."""
    python = folder / "python"
    packages = sysconfig.get_paths()["purelib"]
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    # A folder on PYTHONPATH is no site folder: the .pth file of an editable install in it counts for nothing.
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {base} -s "$@"\n')
    python.chmod(0o755)
    tried = subprocess.run(
        [python, "-c", "import pyspark, rules"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert "No module named 'rules'" in tried.stderr
    return python
