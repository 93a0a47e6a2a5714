"""The cache of Kafka's jars, with a java on the PATH that plays Ivy; tests/kafka runs on what the real one fetched."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deploy.lab import jars
from deploy.lab.jar_checksums import pins
from deploy.lab.jars import cache_folder, kafka_jars
from deploy.lab.lab_errors import LabError
from deploy.schemas.reflection import KAFKAS

FETCHES = """#!/bin/sh
echo run >> "$RUNS"
while [ "$1" != -retrieve ]; do shift; done
folder=$(dirname "$2")
mkdir -p "$folder"
[ -e "$folder/log4j-core-2.99.4.jar" ] && { touch "$folder/log4j-slf4j-impl-2.99.4.jar"; exit 0; }
touch "$folder/kafka_2.13-9.9.9.jar" "$folder/kafka-tools-9.9.9.jar" "$folder/log4j-core-2.99.4.jar"
echo "	found org.apache.kafka#kafka_2.13;9.9.9 in central"
"""
DIES_HALF_WAY = """#!/bin/sh
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


def test_the_jars_come_with_the_logger_of_their_own_log4j_and_are_fetched_once(java: Path, tmp_path: Path) -> None:
    java.write_text(FETCHES)
    folder = kafka_jars("9.9.9", cache=tmp_path / "cache")

    assert folder == tmp_path / "cache" / "9.9.9"
    assert sorted(jar.name for jar in folder.iterdir()) == [
        "kafka-tools-9.9.9.jar",
        "kafka_2.13-9.9.9.jar",
        "log4j-core-2.99.4.jar",
        "log4j-slf4j-impl-2.99.4.jar",
    ]
    java.write_text("#!/bin/sh\nexit 1\n")
    assert kafka_jars("9.9.9", cache=tmp_path / "cache") == folder


def test_a_fetch_that_dies_half_way_leaves_nothing_that_looks_whole(java: Path, tmp_path: Path) -> None:
    java.write_text(DIES_HALF_WAY)
    with pytest.raises(LabError, match=r"^could not fetch kafka_2\.13 9\.9\.9, kafka-tools 9\.9\.9 .*access error"):
        kafka_jars("9.9.9", cache=tmp_path / "cache")

    assert [left.name for left in (tmp_path / "cache").iterdir()] == [".9.9.9.lock"]
    java.write_text(FETCHES)
    assert (kafka_jars("9.9.9", cache=tmp_path / "cache") / "kafka-tools-9.9.9.jar").exists()


def test_what_a_killed_fetch_left_behind_is_cleared_away(java: Path, tmp_path: Path) -> None:
    java.write_text(FETCHES)
    left = tmp_path / "cache" / ".9.9.9.part-x" / "jars"
    left.mkdir(parents=True)

    kafka_jars("9.9.9", cache=tmp_path / "cache")

    assert not left.parent.exists()


def test_of_several_who_ask_at_once_one_fetches(java: Path, tmp_path: Path) -> None:
    java.write_text(FETCHES)
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(lambda _: kafka_jars("9.9.9", cache=tmp_path / "cache"), range(4)))

    assert len(folders) == 1
    assert (tmp_path / "runs").read_text() == "run\nrun\n"  # Kafka, then its logger


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == Path("/home/somebody/.cache/kraftwatch/kafka")

    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert cache_folder() == Path("/home/somebody/.cache/kraftwatch/kafka")

    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert cache_folder() == Path("/var/cache/kraftwatch/kafka")


def test_a_jar_that_is_not_the_one_that_is_pinned_is_refused_and_nothing_is_kept(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java.write_text(FETCHES)
    monkeypatch.setattr(jars, "pins", lambda: {"kafka-tools-9.9.9.jar": "0" * 64})

    with pytest.raises(LabError, match=r"^kafka-tools-9\.9\.9\.jar from Maven Central is not the file that jars\.lock"):
        kafka_jars("9.9.9", cache=tmp_path / "cache")

    assert [left.name for left in (tmp_path / "cache").iterdir()] == [".9.9.9.lock"]


def test_it_is_said_which_jars_nobody_has_pinned(
    java: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    java.write_text(FETCHES)
    of_nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    names = ("kafka-tools-9.9.9.jar", "kafka_2.13-9.9.9.jar", "log4j-core-2.99.4.jar", "log4j-slf4j-impl-2.99.4.jar")

    monkeypatch.setattr(jars, "pins", lambda: dict.fromkeys(names[1:], of_nothing))
    kafka_jars("9.9.9", cache=tmp_path / "some")
    assert "4 jars fetched, 1 of them not pinned by jars.lock, such as kafka-tools-9.9.9.jar." in told(capsys)

    monkeypatch.setattr(jars, "pins", lambda: dict.fromkeys(names, of_nothing))
    kafka_jars("9.9.9", cache=tmp_path / "all")
    assert "4 jars fetched, each as pinned." in told(capsys)


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_every_kafka_that_is_known_is_pinned() -> None:
    assert {f"{jar}-{kafka}.jar" for kafka in KAFKAS for jar in ("kafka_2.13", "kafka-tools")} <= set(pins())


def test_a_lock_with_a_line_that_is_none_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "jars.lock"
    lock.write_text(f"{'a' * 64}  a.jar\n<<<<<<< ours\n")

    with pytest.raises(LabError, match=r"jars\.lock, line 2: "):
        pins(lock)
