"""A place of Spark's files whose jars are missing is invalid input; one that does not answer now is not."""

import pytest
from pyspark.sql import SparkSession

from connectors.errors import UsageError
from streaming.pipeline.spark.errors import JobError
from streaming.pipeline.spark.hadoop_folder import HadoopFolder

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("uri", "sentence"),
    [
        ("s3a://b/x", "scheme s3a: it lacks the class org.apache.hadoop.fs.s3a.S3AFileSystem; add .*hadoop-aws.* to"),
        ("s3://b/x", "of the scheme s3; write s3a:// instead of s3://"),
        ("gs://b/x", "scheme gs: it lacks the class .*; add org.apache.hadoop:hadoop-gcp.*gcs-connector"),
        ("abfss://c@a.dfs.core.windows.net/x", "scheme abfss: .*; add org.apache.hadoop:hadoop-azure"),
        ("our-own://x/y", "scheme our-own; add the jars .* and set spark.hadoop.fs.our-own.impl"),
    ],
)
def test_a_file_system_that_spark_lacks_is_named_with_its_jars(spark: SparkSession, uri: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as raised:
        HadoopFolder(spark, uri).names("offsets")
    assert "\n" not in str(raised.value)


def test_a_file_system_that_does_not_answer_is_no_invalid_input(spark: SparkSession) -> None:
    with pytest.raises(
        JobError, match=r"checkpoint hdfs://127\.0\.0\.1:1/x: Spark cannot use it: .*Connection refused"
    ):
        HadoopFolder(spark, "hdfs://127.0.0.1:1/x").names("offsets")


def test_any_file_system_of_the_users_own_is_read(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A mount table is one that needs no further jar."""
    folder = tmp_path_factory.mktemp("mounted")
    (folder / "offsets").mkdir()
    (folder / "offsets" / "7").touch()
    context = spark.sparkContext
    context._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.ours.link./job", folder.as_uri())
    assert HadoopFolder(spark, "viewfs://ours/job").names("offsets") == ["7"]
