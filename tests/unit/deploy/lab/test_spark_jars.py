"""The jars of Spark's Kafka source are those of the installed Spark, pinned by their checksums."""

import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from deploy.lab import LabError, spark_jars
from deploy.lab.jars import jar_checksums, sha256
from deploy.lab.spark_jars import LOCK, SPARK_VERSION, spark_kafka_jars


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a folder with one jar, which a lock file pins."""
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "a.jar").write_bytes(b"content")
    lock = tmp_path / "test.lock"
    lock.write_text(f"{sha256(folder / 'a.jar')}  a.jar\n")
    monkeypatch.setattr(spark_jars, "LOCK", lock)
    return folder


def test_the_lock_is_of_the_installed_spark() -> None:
    assert version("pyspark") == SPARK_VERSION
    assert f"spark-sql-kafka-0-10_2.13-{SPARK_VERSION}.jar" in jar_checksums(LOCK)
    assert len(jar_checksums(LOCK)) == 4


def test_jars_of_a_folder_are_verified(folder: Path) -> None:
    assert spark_kafka_jars(folder) == [folder / "a.jar"]

    (folder / "a.jar").write_bytes(b"changed")
    with pytest.raises(LabError, match=r"a\.jar from Maven Central is not the file that test\.lock pins"):
        spark_kafka_jars(folder)


def test_a_missing_jar_is_named(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()

    with pytest.raises(LabError, match=r"does not have a\.jar of Spark's Kafka source"):
        spark_kafka_jars(folder)
