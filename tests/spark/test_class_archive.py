"""The archive of Java's classes: Java uses the one that fits, and starts without a message on another one.

One that was cut off is in tests/unit/streaming/pipeline/spark/test_spark_session.py: Java does not get it.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

WRITE = """
import sys
from pathlib import Path
from streaming.pipeline.class_archive import write
write(Path(sys.argv[1]))
"""
START = """
import json, sys
from pathlib import Path
from pyspark import SparkContext
from streaming.pipeline.spark import spark_session
spark_session.CLASS_ARCHIVES = Path(sys.argv[1])
spark = spark_session.start_spark(master="local[1]", logs=Path(sys.argv[2]), settings=json.loads(sys.argv[3]))
mapped = Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text().splitlines()
print(any(sys.argv[1] in line and line.endswith(".jsa") for line in mapped))
spark.stop()
"""
"""Prints whether Java has mapped the archive into its memory."""


def run(script: str, *arguments: str | Path) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False, timeout=600
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.strip()


def used(archives: Path, logs: Path, **settings: str) -> bool:
    """Returns whether a Java that starts with the archive uses it; it must not say anything about it."""
    mapped = run(START, archives, logs, json.dumps(settings))
    said = (logs / "spark.err").read_text().lower()
    assert not [word for word in ("archive", "shared", "cds", "mismatch") if word in said], said
    return mapped == "True"


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    archives = tmp_path_factory.mktemp("classes") / "share"
    run(WRITE, archives)
    return archives


def test_java_uses_the_archive(archives: Path, tmp_path: Path) -> None:
    assert used(archives, tmp_path)


def test_an_archive_of_other_jars_is_ignored(archives: Path, tmp_path: Path) -> None:
    assert not used(archives, tmp_path, **{"spark.driver.extraClassPath": "/nowhere/other.jar"})


def test_a_damaged_archive_is_ignored(archives: Path, tmp_path: Path) -> None:
    (archive,) = archives.glob("*.jsa")
    (tmp_path / archive.name).write_bytes(bytes(4_096) + archive.read_bytes()[4_096:])

    assert not used(tmp_path, tmp_path / "log")
