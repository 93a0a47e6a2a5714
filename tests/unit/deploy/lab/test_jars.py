"""The cache of Kafka's jars, with a java on the PATH that plays Ivy; tests/kafka runs on what the real one fetched."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deploy.lab.errors import LabError
from deploy.lab.jars import cache_folder, kafka_jars

FETCHES = """#!/bin/sh
echo run >> "$RUNS"
while [ "$1" != -retrieve ]; do shift; done
folder=$(dirname "$2")
mkdir -p "$folder"
[ -e "$folder/log4j-core-2.25.4.jar" ] && { touch "$folder/log4j-slf4j-impl-2.25.4.jar"; exit 0; }
touch "$folder/kafka_2.13-9.9.9.jar" "$folder/kafka-tools-9.9.9.jar" "$folder/log4j-core-2.25.4.jar"
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
        "log4j-core-2.25.4.jar",
        "log4j-slf4j-impl-2.25.4.jar",
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
