"""Spark's private names: what Spark has no public function for. An upgrade that breaks one breaks its test by name."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.context import SQLContext

_DAEMON: Final = b"pyspark.daemon"
_PARENT: Final = re.compile(r"(?P<pid>\d+) \(.*\) . (?P<parent>\d+) ", re.DOTALL)
"""The beginning of `/proc/PID/stat`; a process may have any name."""


def java_of(spark: SparkSession) -> Any:
    """Returns the classes of the session's Java by their package, as attributes (py4j's JVMView)."""
    java = spark.sparkContext._jvm
    assert java is not None, "a session has a Java process"
    return java


def hadoop_settings(spark: SparkSession) -> Any:
    """Returns Java's `org.apache.hadoop.conf.Configuration` of the session."""
    return spark.sparkContext._jsc.hadoopConfiguration()


def executor_count(spark: SparkSession) -> int:
    """Returns how many executors work for the session; in local mode none."""
    context: Any = spark.sparkContext
    # The driver is one of them.
    return len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1


def has_java() -> bool:
    """Returns whether this process has started Spark's Java, or is connected to one."""
    return SparkContext._gateway is not None


_launched: list[subprocess.Popen[bytes]] = []
"""The Java process that this process has started last: one that hangs while it starts has no gateway."""


def launch_java(settings: SparkConf, output: IO[bytes]) -> None:
    """Starts Spark's Java with these settings, unless it runs, and waits until it answers; `output`: what it prints."""
    if has_java():
        return

    def popen(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        _launched[:] = [subprocess.Popen(command, **options)]
        return _launched[0]

    module: Any = java_gateway
    module.Popen = popen
    try:
        SparkContext._ensure_initialized(gateway=module.launch_gateway(settings, {"stdout": output, "stderr": output}))
    finally:
        module.Popen = subprocess.Popen


def end_java(within_s: float) -> None:
    """Ends the Java process that this process has started, and waits until it has ended.

    Raises subprocess.TimeoutExpired if it has not ended after `within_s` seconds.
    """
    java: Any = SparkContext._gateway
    assert java is not None, "it was started"
    java.shutdown()
    java.proc.stdin.close()
    java.proc.wait(within_s)


def release(frame: DataFrame) -> None:
    """Lets Java forget a frame and the rows that it keeps.

    A Java object in Python refers to itself: Java would keep it until Python's garbage collector finds it.
    """
    gateway = frame.sparkSession.sparkContext._gateway
    if gateway is not None:
        gateway.detach(frame._jdf)


def answers(spark: SparkSession) -> bool:
    """Returns whether the session's Java runs and its context was not stopped."""
    context: Any = spark.sparkContext
    try:
        return context._jsc is not None and not context._jsc.sc().isStopped()
    except (Py4JError, ConnectionError):
        return False


def end_idle_daemons() -> int:
    """Ends those of Spark's Python daemons that have no worker, on Linux; returns how many.

    Spark starts a daemon for each kind of worker, three of them only to begin a query, and keeps them: 36 MB each. It
    starts one again when it cannot connect to it (`PythonWorkerFactory.createThroughDaemon`).
    """
    launched = {java.pid for java in _launched}
    parents = {int(found["pid"]): int(found["parent"]) for found in map(_PARENT.match, _stats()) if found}
    idle = [pid for pid, parent in parents.items() if parent in launched and pid not in parents.values()]
    ended = 0
    for pid in idle:
        with suppress(OSError):
            if _DAEMON in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGTERM)
                ended += 1
    return ended


def _stats() -> Iterator[str]:
    for file in Path("/proc").glob("[0-9]*/stat"):
        # A process may end meanwhile.
        with suppress(OSError):
            yield file.read_text(encoding="utf-8", errors="replace")


def kill_java() -> bool:
    """Kills the Java process that this process has started, and forgets its session, so that another can be started.

    Returns False, and changes nothing, if another process has started Java (spark-submit).
    """
    gateway: Any = SparkContext._gateway
    if gateway is not None and gateway.proc is None:
        return False
    for java in _launched:
        # Also one that does not answer.
        java.kill()
        java.wait()
        if java.stdin is not None:
            java.stdin.close()
    _launched.clear()
    if gateway is None:
        return True
    if (server := getattr(SparkContext._active_spark_context, "_accumulatorServer", None)) is not None:
        server.shutdown()
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    SQLContext._instantiatedContext = None
    return True
