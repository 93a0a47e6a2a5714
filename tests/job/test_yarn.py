"""The job in cluster mode on YARN: its driver runs in a container, from one archive, and is started again by YARN.

Nothing outlives a container, nor its disk: observations are in a topic, Spark's files in HDFS, alerts in PostgreSQL.
"""

import shutil
import subprocess
import sysconfig
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from deploy.lab.lab import Lab
from tests.job.configured_job import ConfiguredJob, section
from tests.job.relay_job import THRESHOLDS, assert_fired_and_resolved_once
from tests.job.relay_process import RelayProcess
from tests.job.remote_storage import RemoteStorage, hdfs
from tests.job.spark_cluster import HOME
from tests.postgres_server import PostgresServer, needs_postgres

pytestmark = [needs_postgres, pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1_200)]

LAB = {"brokers": 0}
ROOT = Path(__file__).parents[2]
JAVA = "-Xss16m -XX:+ExitOnOutOfMemoryError -XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@pytest.fixture(scope="module")
def storage(folder: Path) -> Iterator[RemoteStorage]:
    with hdfs(folder / "hadoop", yarn=folder / "yarn") as storage:
        yield storage
        for process in in_containers(folder):
            process.kill()


@pytest.fixture(scope="module")
def archive(folder: Path) -> Path:
    subprocess.run(
        ["make", "--silent", "spark-archive", f"ARCHIVE={folder / 'kraftwatch.tar.gz'}"], cwd=ROOT, check=True
    )
    return folder / "kraftwatch.tar.gz"


def test_driver_in_a_container_is_started_again_and_continues(
    lab: Lab,
    relay: RelayProcess,
    storage: RemoteStorage,
    postgres: PostgresServer,
    archive: Path,
    folder: Path,
    tmp_path: Path,
) -> None:
    job = ClusterModeJob(
        folder=tmp_path / "job",
        bootstrap=(),
        environment={"HADOOP_CONF_DIR": str(folder / "yarn"), "SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13"},
        archive=archive,
    )
    job.write_config(
        clusters=[section("test", lab)],
        source="kafka",
        relay=relay.section,
        thresholds=THRESHOLDS,
        checkpoint=f"{storage.uri}/kraftwatch",
        work_dir="work",
        store=postgres.database("kraftwatch").url,
        spark=dict(storage.settings),
    )
    with job:
        lab.pause(*lab.controllers[:2])
        job.wait_for("no-leader")
        processes = in_containers(folder)
        disks = {Path(process.cwd()) for process in processes}
        assert any((disk / "work").exists() for disk in disks), "the driver's own files are in its container"
        for process in processes:
            process.kill()
        for disk in disks:
            shutil.rmtree(disk, ignore_errors=True)
        lab.resume(*lab.controllers[:2])
        job.wait_for("no-leader", "resolved")
        assert disks.isdisjoint(Path(process.cwd()) for process in in_containers(folder))
    assert_fired_and_resolved_once(job)


def test_archive_has_the_bytecode_of_the_product_and_of_its_packages(archive: Path) -> None:
    with tarfile.open(archive) as files:
        names = files.getnames()
    compiled = {name.split("/")[-3] for name in names if "/__pycache__/" in name}

    assert {"rules", "connectors", "streaming", "pyspark", "pandas"} <= compiled


def in_containers(folder: Path) -> list[psutil.Process]:
    """Returns the processes of YARN's containers."""
    return [
        process
        for process in psutil.process_iter(["cwd"])
        if "/container_" in (process.info["cwd"] or "") and Path(process.info["cwd"]).is_relative_to(folder)
    ]


@dataclass(slots=True, kw_only=True)
class ClusterModeJob(ConfiguredJob):
    """The job, submitted to YARN. The process here only waits for it."""

    archive: Path

    def command(self) -> list[str]:
        python = "./kraftwatch/bin/python"
        options = {
            "--master": "yarn",
            "--deploy-mode": "cluster",
            "--driver-memory": "512m",
            "--driver-java-options": JAVA,
            "--num-executors": "1",
            "--executor-memory": "512m",
            "--archives": f"{self.archive}#kraftwatch",
            "--files": str(self.file),
        }
        settings = {
            "spark.yarn.appMasterEnv.PYSPARK_PYTHON": python,
            "spark.yarn.appMasterEnv.PYSPARK_DRIVER_PYTHON": python,
        }
        submit = str(Path(sysconfig.get_path("scripts")) / "spark-submit")
        words = [word for pair in options.items() for word in pair]
        words += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        job = str(ROOT / "deploy" / "spark" / "kraftwatch_job.py")
        return [submit, *words, job, "--config", self.file.name, "--listen", self.address]
