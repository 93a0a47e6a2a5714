"""Spark's files in HDFS and in S3: a killed job continues from there, with a folder that has none of them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow.dataset
import pytest
import yaml

from deploy.lab.lab import Lab
from tests.eventually import eventually
from tests.in_background import in_background
from tests.job.configured_job import section
from tests.job.job_processes import assert_counts, resume_if_running
from tests.job.other_python import python_without_kraftwatch
from tests.job.relay_job import KEPT, assert_fired_and_resolved_once, delete_logs, reading_job
from tests.job.relay_process import RelayProcess, counted
from tests.job.remote_storage import RemoteStorage, hdfs, s3
from tests.job.spark_cluster import executor_processes, standalone_cluster

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1_200)]

LAB = {"brokers": 0}
SECRET_KEY = "spark.hadoop.fs.s3a.secret.key"


@pytest.fixture(scope="module")
def name_node(folder: Path) -> Iterator[RemoteStorage]:
    with hdfs(folder / "hdfs") as storage:
        yield storage


def test_killed_job_continues_from_s3_with_other_partitions_and_in_another_place(
    lab: Lab, relay: RelayProcess, folder: Path, tmp_path: Path
) -> None:
    with s3(folder / "s3") as storage:
        work, (first, second) = tmp_path / "work", [f"{storage.uri}/{name}" for name in ("first", "second")]
        keys: dict[str, Any] = {"work_dir": str(work), "spark": dict(storage.settings)}
        job = reading_job(relay, lab, tmp_path, checkpoint=first, **keys)
        with job:
            lab.pause(*lab.controllers[:2])
            try:
                job.wait_for("no-leader")
                for place, partitions in ((first, 1), (first, 2), (second, 2)):
                    job.kill()
                    delete_logs(work)
                    assert {path.name for path in work.iterdir()} <= KEPT
                    reading_job(relay, lab, tmp_path, checkpoint=place, pipeline={"partitions": partitions}, **keys)
                    job.start()
            finally:
                lab.resume(*lab.controllers[:2])
            job.wait_for("no-leader", "resolved")
        assert_fired_and_resolved_once(job)
        why = f"Spark's state in {first} is set aside: its state has 1 partition, and pipeline.partitions is 2"
        assert job.log.read_text().count(why) == 1
        assert not job.logged("the jars have no ")
        written = [path for path in tmp_path.rglob("*") if path.is_file() and b"do-not-print-me" in path.read_bytes()]
        assert written == [tmp_path / "job" / "kraftwatch.yaml"], "the secret is in no log and no other file"


def test_workers_that_share_no_folder_with_the_driver(
    lab: Lab,
    relay: RelayProcess,
    name_node: RemoteStorage,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this user may not make mount namespaces")
    monkeypatch.setenv("PYSPARK_PYTHON", str(python_without_kraftwatch(folder)))
    with standalone_cluster(folder / "spark", workers=2, hidden=tmp_path) as master:
        job = reading_job(
            relay,
            lab,
            tmp_path,
            checkpoint=f"{name_node.uri}/third",
            work_dir=str(tmp_path / "work"),
            master=master,
            spark={**name_node.settings, "spark.executor.memory": "512m"},
        )
        with job:
            lab.pause(*lab.controllers[:2])
            job.wait_for("no-leader")
            job.kill()
            delete_logs(tmp_path / "work")
            job.start()
            for executor in executor_processes(folder / "spark"):
                executor.kill()
            lab.resume(*lab.controllers[:2])
            job.wait_for("no-leader", "resolved")
        assert_fired_and_resolved_once(job)


@pytest.mark.parametrize("silent", ["hdfs", "s3", "executors", "room"])
def test_an_outage_is_notified_once_while_spark_lacks_what_it_needs(
    silent: str, lab: Lab, relay: RelayProcess, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system of its checkpoint does not answer, its executors are lost, or its cluster has no room."""
    monkeypatch.setenv("PYSPARK_PYTHON", str(python_without_kraftwatch(folder)))
    files, spark = tmp_path / "files", tmp_path / "spark"
    with (s3 if silent == "s3" else hdfs)(files) as storage, standalone_cluster(spark, workers=1) as master:
        job = reading_job(
            relay,
            lab,
            tmp_path,
            checkpoint=f"{storage.uri}/job",
            work_dir=str(tmp_path / "work"),
            master=master,
            spark={**storage.settings, "spark.executor.memory": "512m"},
        )
        with ExitStack() as running:
            running.callback(job.stop)
            if silent == "room":
                # It waits for the first batch.
                running.enter_context(in_background(lambda _: job.start()))
            else:
                job.start()
                eventually(lambda: assert_counts(job, "spark"), within_s=120)
            with suspended(files if silent in ("hdfs", "s3") else spark / "worker-0"):
                for executor in executor_processes(spark) if silent == "executors" else ():
                    executor.kill()
                job.wait_for("monitor-degraded")
                with paused(lab):
                    job.wait_for("no-leader", within_s=60)
                    assert_counts(job, "understudy")
                job.wait_for("no-leader", "resolved", within_s=60)
            eventually(lambda: assert_counts(job, "spark"), within_s=240)
            job.wait_for("monitor-degraded", "resolved", within_s=120)
        assert_fired_and_resolved_once(job)


@contextmanager
def suspended(folder: Path) -> Iterator[None]:
    """Suspends what runs in a folder or below it."""
    found = [one for one in psutil.process_iter(["cwd"]) if Path(one.info["cwd"] or "/").is_relative_to(folder)]
    assert found
    with ExitStack() as resumed:
        for one in found:
            resumed.callback(resume_if_running, one)
            # Some are forked for a moment.
            with suppress(psutil.NoSuchProcess):
                one.suspend()
        yield


@contextmanager
def paused(lab: Lab) -> Iterator[None]:
    """Without a leader."""
    lab.pause(*lab.controllers[:2])
    try:
        yield
    finally:
        lab.resume(*lab.controllers[:2])


def test_export_of_a_topic_to_hdfs_and_to_s3(
    lab: Lab, relay: RelayProcess, name_node: RemoteStorage, folder: Path, tmp_path: Path
) -> None:
    relay.wait_for_rows(30)
    relay.stop()
    sequences = sorted(one.observation.sequence for one in counted(relay.messages()))
    with s3(folder / "s3-of-export") as bucket:
        for storage in (name_node, bucket):
            config = exporting_config(relay, lab, tmp_path, spark=dict(storage.settings))
            for expected in (len(sequences), 0):
                assert f", {expected} observations, {expected} events, " in exported(config, f"{storage.uri}/lake")
        written = pyarrow.dataset.dataset(
            folder / "s3-of-export" / "bucket" / "lake" / "observations", format="parquet"
        )
        assert sorted(written.to_table(columns=["sequence"])["sequence"].to_pylist()) == sequences
        denied = exporting_config(relay, lab, tmp_path, spark={**bucket.settings, SECRET_KEY: "wrong"})
        sentence = exported(denied, f"{bucket.uri}/lake", exit_code=2)
        assert "--output s3a://bucket/lake: Spark cannot read alerts there: " in sentence
        assert "wrong" not in sentence


def exporting_config(relay: RelayProcess, lab: Lab, tmp_path: Path, **keys: Any) -> Path:
    clusters = [section("test", lab, cluster_id=relay.messages()[0].cluster_id)]
    work = {"checkpoint": "hdfs://nowhere.example/job", "work_dir": str(tmp_path / "work")}
    config = {"clusters": clusters, "source": "kafka", "relay": relay.section, **work, **keys}
    file = tmp_path / "export.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


def exported(config: Path, to: str, exit_code: int = 0) -> str:
    command = [sys.executable, "-m", "streaming", "data", "export", "--config", str(config), "--output", to]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == exit_code, done.stderr
    assert "do-not-print-me" not in done.stderr
    return done.stderr
