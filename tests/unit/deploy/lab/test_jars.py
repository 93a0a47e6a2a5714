"""The cache of the jars of Kafka and Spark, with a script instead of Ivy; tests/kafka uses the real Ivy."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deploy.lab import LabError, jars
from deploy.lab.jars import cache_folder, class_archive, ensure_class_archive, jar_checksums, kafka_jars
from deploy.lab.spark_jars import HADOOP_VERSION, S3A, JarSet, installed_hadoop, spark_jars
from deploy.schemas.schema_file import KAFKA_VERSIONS
from tests.job.remote_storage import HADOOP_CLUSTER

IVY_SUCCEEDS = """#!/bin/sh
echo run >> "$RUNS"
while [ "$1" != -retrieve ]; do shift; done
folder=$(dirname "$2")
mkdir -p "$folder"
[ -e "$folder/log4j-core-2.99.4.jar" ] && { touch "$folder/log4j-slf4j-impl-2.99.4.jar"; exit 0; }
touch "$folder/kafka_2.13-9.9.9.jar" "$folder/kafka-tools-9.9.9.jar" "$folder/log4j-core-2.99.4.jar"
echo "	found org.apache.kafka#kafka_2.13;9.9.9 in central"
"""
IVY_FAILS_HALFWAY = """#!/bin/sh
while [ "$1" != -retrieve ]; do shift; done
mkdir -p "$(dirname "$2")"
touch "$(dirname "$2")/kafka_2.13-9.9.9.jar"
echo "		Server access error at url of the registry"
exit 1
"""


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setenv("RUNS", str(tmp_path / "runs"))
    return program


def test_jars_include_the_logger_of_their_log4j_version_and_are_downloaded_once(java: Path, tmp_path: Path) -> None:
    java.write_text(IVY_SUCCEEDS)
    folder = kafka_jars("9.9.9", cache=tmp_path / "cache")

    assert folder == tmp_path / "cache" / "9.9.9"
    assert sorted(jar.name for jar in folder.iterdir()) == [*NAMES]
    java.write_text("#!/bin/sh\nexit 1\n")
    assert kafka_jars("9.9.9", cache=tmp_path / "cache") == folder


def test_failed_or_killed_download_leaves_no_folder_and_can_be_repeated(java: Path, tmp_path: Path) -> None:
    java.write_text(IVY_FAILS_HALFWAY)
    killed = tmp_path / "cache" / ".9.9.9.part-x" / "jars"
    killed.mkdir(parents=True)
    with pytest.raises(LabError, match=r"^the download of kafka_2\.13 9\.9\.9, kafka-tools(?s:.*)access error"):
        kafka_jars("9.9.9", cache=tmp_path / "cache")

    assert [path.name for path in (tmp_path / "cache").iterdir()] == [".9.9.9.lock"]
    java.write_text(IVY_SUCCEEDS)
    assert (kafka_jars("9.9.9", cache=tmp_path / "cache") / "kafka-tools-9.9.9.jar").exists()


def test_concurrent_calls_download_once(java: Path, tmp_path: Path) -> None:
    java.write_text(IVY_SUCCEEDS)
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(lambda _: kafka_jars("9.9.9", cache=tmp_path / "cache"), range(4)))

    assert len(folders) == 1
    assert (tmp_path / "runs").read_text() == "run\nrun\n"  # Kafka, then its logger


def test_cache_folder_is_in_the_users_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/user")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == Path("/home/user/.cache/kraftwatch/kafka")

    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert cache_folder() == Path("/home/user/.cache/kraftwatch/kafka")

    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert cache_folder() == Path("/var/cache/kraftwatch/kafka")


NAMES = ("kafka-tools-9.9.9.jar", "kafka_2.13-9.9.9.jar", "log4j-core-2.99.4.jar", "log4j-slf4j-impl-2.99.4.jar")
EMPTY_FILE_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_jar_with_another_checksum_is_refused_and_deleted(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java.write_text(IVY_SUCCEEDS)
    monkeypatch.setattr(jars, "jar_checksums", lambda: {NAMES[0]: "0" * 64})

    with pytest.raises(LabError, match=r"^kafka-tools-9\.9\.9\.jar from Maven Central is not the file that jars\.lock"):
        kafka_jars("9.9.9", cache=tmp_path / "cache")

    assert [path.name for path in (tmp_path / "cache").iterdir()] == [".9.9.9.lock"]


@pytest.mark.parametrize(
    ("known", "reported"),
    [
        (NAMES[1:], "4 jars downloaded, 1 of them not in jars.lock, such as kafka-tools-9.9.9.jar."),
        (NAMES, "4 jars downloaded, all checksums match."),
    ],
)
def test_jars_without_a_checksum_are_reported(
    java: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    known: tuple[str, ...],
    reported: str,
) -> None:
    java.write_text(IVY_SUCCEEDS)
    monkeypatch.setattr(jars, "jar_checksums", lambda: dict.fromkeys(known, EMPTY_FILE_SHA256))

    kafka_jars("9.9.9", cache=tmp_path)

    assert reported in " ".join(capsys.readouterr().err.split())


def test_every_known_kafka_version_has_checksums() -> None:
    assert {f"{jar}-{kafka}.jar" for kafka in KAFKA_VERSIONS for jar in ("kafka_2.13", "kafka-tools")} <= set(
        jar_checksums()
    )


def test_lock_file_with_an_invalid_line_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "jars.lock"
    lock.write_text(f"{'a' * 64}  a.jar\n<<<<<<< ours\n")

    with pytest.raises(LabError, match=r"jars\.lock, line 2: "):
        jar_checksums(lock)


def test_class_archive_is_written_once_and_a_partial_one_is_not_used(tmp_path: Path) -> None:
    folder, written = tmp_path / "9.9.9", []

    def fails(file: Path) -> None:
        file.write_bytes(b"half")
        raise LabError("the node did not start")

    def write(file: Path) -> None:
        written.append(file.exists())
        file.write_bytes(b"whole")

    with pytest.raises(LabError):
        ensure_class_archive(folder, fails)
    assert not class_archive(folder).exists()
    for _ in range(2):
        ensure_class_archive(folder, write)
    assert class_archive(folder).read_bytes() == b"whole"
    assert written == [False]


def test_the_lock_is_of_the_hadoop_in_the_installed_spark() -> None:
    assert installed_hadoop() == HADOOP_VERSION
    assert f"hadoop-aws-{HADOOP_VERSION}.jar" in jar_checksums(S3A.lock)


def test_the_jars_are_refused_beside_another_hadoop_and_not_beside_another_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hadoop-client-api-3.4.1.jar").touch()
    monkeypatch.setattr("deploy.lab.spark_jars.pyspark_jars", lambda: tmp_path)
    with pytest.raises(LabError, match=rf"are of Hadoop {HADOOP_VERSION}, but pyspark .* has Hadoop 3\.4\.1: install"):
        spark_jars(S3A)


@pytest.mark.parametrize("jars", [S3A, HADOOP_CLUSTER], ids=lambda jars: jars.name)
def test_each_jar_that_is_downloaded_has_a_checksum(jars: JarSet) -> None:
    assert {f"{name}-{revision}.jar" for _, name, revision, _ in jars.dependencies} == set(jar_checksums(jars.lock))
