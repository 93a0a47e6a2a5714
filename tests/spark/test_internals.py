"""Each private name of Spark that kraftwatch uses is still there; docs/spark.md names the other tests."""

import subprocess
import sys
import textwrap
from itertools import islice

import psutil
import pytest
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from streaming.pipeline.spark import internals
from tests.eventually import eventually

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]


def test_java_classes_are_reached_by_jvm(spark: SparkSession) -> None:
    assert internals.java_of(spark).java.lang.Math.abs(-3) == 3


def test_hadoop_settings_are_those_of_the_session(spark: SparkSession) -> None:
    assert internals.hadoop_settings(spark).get("fs.defaultFS") == "file:///"


def test_a_local_session_has_no_executor(spark: SparkSession) -> None:
    assert internals.executor_count(spark) == 0


def test_a_started_session_has_java(spark: SparkSession) -> None:
    assert spark.version
    assert internals.has_java()


def test_java_forgets_a_released_frame(spark: SparkSession) -> None:
    frame = spark.range(3)
    assert frame.count() == 3

    internals.release(frame)

    # A thread of py4j tells Java.
    eventually(lambda: forgotten(frame), within_s=10)


def forgotten(frame: DataFrame) -> bool:
    try:
        frame.count()
    except Py4JError as problem:
        return "does not exist" in str(problem)
    return False


def test_daemons_without_a_worker_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two daemons of Java, one of them with a worker, a process of another kind, and a daemon of another Java."""
    waits = "import sys, subprocess; child = {}; print('ready', flush=True); sys.stdin.read()"
    worker = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    java = f"""
        import subprocess, sys
        def started(*command):
            process = subprocess.Popen([sys.executable, "-c", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            process.stdout.readline()
            print(process.pid, flush=True)
            return process
        kept = [
            started({waits.format(None)!r}, "pyspark.daemon"),
            started({waits.format(worker)!r}, "pyspark.daemon"),
            started({waits.format(None)!r}, "another"),
        ]
        sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(java)]
    javas = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        started = [[psutil.Process(int(line)) for line in islice(process.stdout or (), 3)] for process in javas]
        monkeypatch.setattr(internals, "_launched", javas[:1])

        assert internals.end_idle_daemons() == 1

        idle, *others = (*started[0], *started[1])
        eventually(lambda: ends(idle), within_s=10)
        assert all(process.status() != psutil.STATUS_ZOMBIE for process in others)
    finally:
        for process in javas:
            for one in psutil.Process(process.pid).children(recursive=True):
                one.kill()
            process.kill()
            process.communicate()


def ends(process: psutil.Process) -> None:
    assert process.status() == psutil.STATUS_ZOMBIE
