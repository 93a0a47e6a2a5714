"""What is set for a checkpoint elsewhere: the format of the state, and the files of a checkpoint in S3."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from deploy.lab.spark_jars import HADOOP_VERSION, installed_hadoop
from streaming.job.spark_state import read_states
from streaming.pipeline.spark.remote_checkpoint import use_remote_checkpoint
from streaming.pipeline.spark.spark_files import LocalFolder, SparkFiles
from tests.bench.s3_requests import counting_requests
from tests.job.remote_storage import s3
from tests.spark.pipeline_run import PipelineRun

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
ENDPOINT = "spark.hadoop.fs.s3a.endpoint"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"

RETRIED_SOON = {
    f"spark.hadoop.fs.s3a.{name}": value for name, value in {"retry.interval": "10ms", "attempts.maximum": "3"}.items()
}
"""A request that fails is repeated for three minutes by default."""

WRITE_FILES = """
import json, shutil, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from py4j.protocol import Py4JJavaError
from streaming.pipeline.spark.hadoop_folder import HadoopFolder
from streaming.pipeline.spark.remote_checkpoint import use_remote_checkpoint
from streaming.pipeline.spark.spark_files import SparkFiles
from streaming.pipeline.spark.spark_session import start_spark

uri, settings, logs = sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])
spark = start_spark(master="local[1]", logs=logs, settings=settings, local_files=False)
folder = HadoopFolder(spark, uri)
use_remote_checkpoint(spark, uri, SparkFiles(folder=folder))
java = spark.sparkContext._jvm
spark_files = getattr(java.org.apache.spark.sql.execution.streaming.checkpointing, "CheckpointFileManager$")
manager = getattr(spark_files, "MODULE$").create(
    java.org.apache.hadoop.fs.Path(uri), spark._jsparkSession.sessionState().newHadoopConf())
path = lambda name: java.org.apache.hadoop.fs.Path(f"{uri}/{name}")

def opened(name, text, overwrite=False):
    out = manager.createAtomic(path(name), overwrite)
    out.write(bytearray(text.encode()))
    return out

def closed(out):
    try:
        out.close()
    except Py4JJavaError as problem:
        return problem.java_exception.getClass().getSimpleName()
    return "written"

found = {"class": manager.getClass().getName()}
first, second = opened("log", "first"), opened("log", "second")
found["second writer"] = [closed(first), closed(second), folder.text("log")]
with ThreadPoolExecutor(8) as pool:
    found["race"] = sorted(pool.map(lambda n: closed(opened("race", str(n))), range(8)))
found["replaced"] = [closed(opened("log", "new", overwrite=True)), folder.text("log")]
out = opened("cancelled", "text")
out.cancel()
found["cancelled"] = [closed(out), manager.exists(path("cancelled"))]
found["entries"] = [manager.exists(path("commits/7"))]
closed(opened("commits/7", "text"))
found["entries"] += [manager.exists(path(name)) for name in ("commits/7", "commits/8", "commits", "offsets")]
manager.delete(path("log"))
manager.delete(path("log"))
found["deleted"] = manager.exists(path("log"))
found["answer lost"] = [closed(opened("lost", "text")), folder.text("lost"), closed(opened("lost", "other"))]
shutil.rmtree(sys.argv[4])
found["store refuses"] = closed(opened("log", "text"))
print(json.dumps(found))
spark.stop()
"""


@pytest.mark.live
@pytest.mark.skipif(installed_hadoop() != HADOOP_VERSION, reason="the jars are those of another Hadoop")
def test_a_file_in_s3_is_written_once_and_an_upload_that_fails_is_an_error(tmp_path: Path) -> None:
    with ExitStack() as stack:
        storage = stack.enter_context(s3(tmp_path / "s3"))
        store = storage.settings[ENDPOINT].removeprefix("http://")
        counter = stack.enter_context(counting_requests(store))
        counter.answers_to_lose.add("checkpoint/lost")
        settings = {**storage.settings, **RETRIED_SOON, ENDPOINT: f"http://{counter.address}"}
        arguments = [f"{storage.uri}/checkpoint", json.dumps(settings), str(tmp_path / "log")]
        ran = subprocess.run(
            [sys.executable, "-c", WRITE_FILES, *arguments, tmp_path / "s3" / "bucket"],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found == {
        "class": "kraftwatch.S3CheckpointFiles",
        "second writer": ["written", "FileAlreadyExistsException", "first"],
        "race": ["FileAlreadyExistsException"] * 7 + ["written"],
        "replaced": ["written", "new"],
        "cancelled": ["written", False],
        "entries": [False, True, False, True, False],
        "deleted": False,
        "answer lost": ["written", "text", "FileAlreadyExistsException"],
        "store refuses": found["store refuses"],
    }
    assert found["store refuses"] != "written"
    assert [one.kind for one in counter.requests if one.key == "checkpoint/lost"][:3] == ["PUT", "PUT", "HEAD"]


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    manager = spark.conf.get(FILE_MANAGER)
    yield spark
    spark.conf.unset(FORMAT)
    spark.conf.set(FILE_MANAGER, str(manager))


@pytest.mark.parametrize("state_format", [1, 2])
def test_a_state_continues_in_the_format_in_which_it_began(
    session: SparkSession, tmp_path: Path, state_format: int
) -> None:
    before = PipelineRun(session, tmp_path)
    if state_format == 2:
        use_remote_checkpoint(session, "hdfs://new/checkpoint", before.checkpoint.spark_files)
    before.start()
    before.batch(before.have_a_leader)
    before.close()

    after = PipelineRun(session, tmp_path)
    files = after.checkpoint.spark_files
    use_remote_checkpoint(session, "hdfs://new/checkpoint", files)
    after.start()
    after.batch(after.have_a_leader)
    after.close()

    assert (files.state_format, files.damaged(), len(files.commits)) == (state_format, [], 2)
    assert list(read_states(session, after.checkpoint.location)) == ["prod"]


def test_a_missing_class_is_logged(session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    session.conf.unset(FILE_MANAGER)
    with caplog.at_level(logging.WARNING):
        use_remote_checkpoint(session, "s3a://bucket/x", SparkFiles(folder=LocalFolder(path=tmp_path)))
    assert "the jars have no kraftwatch.S3CheckpointFiles: each batch takes eight times as many" in caplog.text
