"""The jars of Spark's Kafka source are those of the installed Spark, pinned by their checksums."""

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from deploy.lab import LabError
from deploy.lab.jars import jar_checksums, sha256
from deploy.lab.spark_jars import KAFKA_SOURCE, S3A, SPARK_VERSION, JarSet, spark_jars
from tests.job.remote_storage import HADOOP_CLUSTER


@pytest.fixture
def one_jar(tmp_path: Path) -> JarSet:
    return replace(KAFKA_SOURCE, lock=tmp_path / "test.lock")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns a folder with one jar, which a lock file pins."""
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "a.jar").write_bytes(b"content")
    lock = tmp_path / "test.lock"
    lock.write_text(f"{sha256(folder / 'a.jar')}  a.jar\n")
    return folder


def test_the_lock_is_of_the_installed_spark() -> None:
    assert version("pyspark") == SPARK_VERSION
    assert f"spark-sql-kafka-0-10_2.13-{SPARK_VERSION}.jar" in jar_checksums(KAFKA_SOURCE.lock)


@pytest.mark.parametrize("jars", [KAFKA_SOURCE, S3A, HADOOP_CLUSTER], ids=lambda jars: jars.name)
def test_each_jar_that_is_downloaded_has_a_checksum(jars: JarSet) -> None:
    assert {f"{name}-{revision}.jar" for _, name, revision, _ in jars.dependencies} == set(jar_checksums(jars.lock))


def test_jars_of_a_folder_are_verified(folder: Path, one_jar: JarSet) -> None:
    assert spark_jars(one_jar, folder) == [folder / "a.jar"]

    (folder / "a.jar").write_bytes(b"changed")
    with pytest.raises(LabError, match=r"a\.jar from Maven Central is not the file that test\.lock pins"):
        spark_jars(one_jar, folder)
