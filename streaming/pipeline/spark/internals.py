"""Spark's private names: what Spark has no public function for. An upgrade that breaks one breaks its test by name."""

from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.context import SQLContext


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


def kill_java() -> bool:
    """Kills the Java process that this process has started, and forgets its session, so that another can be started.

    Returns False, and changes nothing, if another process has started Java (spark-submit).
    """
    gateway: Any = SparkContext._gateway
    if gateway is None:
        return True
    if gateway.proc is None:
        return False
    # Also one that does not answer.
    gateway.proc.kill()
    gateway.proc.wait()
    gateway.proc.stdin.close()
    if (server := getattr(SparkContext._active_spark_context, "_accumulatorServer", None)) is not None:
        server.shutdown()
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    SQLContext._instantiatedContext = None
    return True
