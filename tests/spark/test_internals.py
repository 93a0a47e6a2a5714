"""Each private name of Spark that kraftwatch uses is still there; docs/spark.md names the other tests."""

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
