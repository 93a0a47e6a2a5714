"""The job on a Spark cluster: executors that have the locked dependencies, and of us only what the job sends."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from deploy.lab.quorum import Lab
from streaming.demo.watcher import Watcher
from tests.job.conftest import SETTINGS
from tests.job.spark_cluster import standalone

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.timeout(240)]


def test_the_job_on_a_master_with_two_workers(folder: Path, lab: Lab) -> None:
    python = stranger(folder)
    with standalone(folder / "spark", workers=2) as master:
        watcher = Watcher(
            folder=folder / "watch",
            name="test",
            bootstrap=lab.bootstrap,
            settings=SETTINGS,
            arguments=["--master", master],
            environment={"PYSPARK_PYTHON": str(python)},
        )
        with watcher:
            lab.pause(*lab.controllers[:2])
            told = watcher.wait_for("no-leader", within_s=60)
            lab.resume(*lab.controllers[:2])
            watcher.wait_for("no-leader", "resolved", since=told.number, within_s=60)

        executors = [path for path in (folder / "spark").glob("worker-*/app-*/*/stderr") if path.stat().st_size]
    assert executors, "the work was done by the workers' executors"


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
