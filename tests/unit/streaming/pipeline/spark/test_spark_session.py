"""A Spark that does not start is reported in one sentence; Java receives paths unchanged. No JVM here."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from connectors.errors import UsageError
from streaming.pipeline.spark import spark_session
from streaming.pipeline.spark.spark_session import java_option, socket_settings, start_spark


def test_missing_java_is_reported_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match=r"JAVA_HOME is .*/nowhere, which has no bin/java; install a JDK 17 or newer"):
        start_spark(master="local[1]", logs=tmp_path / "log", settings={})

    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="java is not on the PATH"):
        start_spark(master="local[1]", logs=tmp_path / "log", settings={})


def start_error(tmp_path: Path, java_script: str, settings: Mapping[str, str] | None = None) -> str:
    """Returns the last line that a start of Spark prints with this `java`, beside an error of a former run."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{java_script}\n")
    java.chmod(0o755)
    logs = tmp_path / "log"
    logs.mkdir()
    (logs / "spark.err").write_text("Error: of the former run\n")
    # In a separate process: pyspark leaves an open pipe to a Java that has exited.
    arguments = f"master='local[1]', logs=Path({str(logs)!r}), settings={dict(settings or {})!r}"
    start = f"from pathlib import Path; start_spark({arguments})"
    ended = subprocess.run(
        [sys.executable, "-c", f"from streaming.pipeline.spark.spark_session import start_spark; {start}"],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return ended.stderr.splitlines()[-1]


def test_the_error_of_a_java_that_exits_at_once_is_reported(tmp_path: Path) -> None:
    error = start_error(tmp_path, "echo 'Error: this java is from 2014' >&2\nexit 1")

    assert error.startswith("connectors.errors.UsageError: Spark does not start on --master local[1]: ")
    assert "Error: this java is from 2014" in error
    assert "of the former run" not in error


@pytest.mark.parametrize(
    "line",
    [
        "# There is insufficient memory for the Java Runtime Environment to continue.",
        "Error: Could not reserve enough space for 524288KB object heap",
        "java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory",
    ],
)
def test_what_the_machine_lacks_is_no_invalid_input(line: str, tmp_path: Path) -> None:
    error = start_error(tmp_path, f"echo '{line}' >&2\nexit 1")
    assert error.startswith("streaming.pipeline.spark.errors.PassingError: Spark does not start on --master local[1]: ")


def test_settings_of_the_configuration_are_not_on_a_command_line(tmp_path: Path) -> None:
    """Java's first start prints the command line of the second: neither has the value, and the file is gone."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    seen = tmp_path / "command-lines"
    script = (
        f'echo "$*" >> {seen}\ncase "$*" in *launcher.Main*) exec {java} "$@";; esac\n'
        f'while [ $# -gt 0 ]; do [ "$1" = --properties-file ] && cat "$2" >> {tmp_path}/read; shift; done; exit 1'
    )

    start_error(tmp_path, script, {"spark.hadoop.fs.s3a.secret.key": "k3y= ü\\\n!", "spark.driver.memory": "600m"})

    lines = seen.read_text()
    assert len(lines.splitlines()) == 2
    assert "k3y" not in lines
    assert "-Xmx600m" in lines, "settings that Java itself needs still arrive"
    assert (
        "spark.hadoop.fs.s3a.secret.key=k3y\\u003d\\u0020\\u00fc\\u005c\\u000a\\u0021"
        in (tmp_path / "read").read_text()
    )
    assert [path for path in (tmp_path / "log").rglob("*.properties") if path.name != "log4j2.properties"] == []


def test_a_java_that_is_killed_while_it_starts_is_no_invalid_input(tmp_path: Path) -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    # Spark's script first runs a short Java program that prints the command line.
    launcher = f'case "$*" in *launcher.Main*) exec {java} "$@";; esac'
    warning = "echo 'WARNING: Using incubator modules: jdk.incubator.vector' >&2"

    error = start_error(tmp_path, f"{launcher}\n{warning}\nkill -9 $$")

    assert error.startswith("connectors.errors.ProcessEndedError: Java ended while Spark started and gave no reason")
    assert "start kraftwatch again" in error


def test_a_path_with_a_space_stays_one_option() -> None:
    assert java_option("-Xss16m") == "-Xss16m"
    assert java_option("-Da=/my folder/x") == '"-Da=/my folder/x"'
    assert java_option('-Da=/a "b" \\c') == '"-Da=/a \\"b\\" \\\\c"'


def test_python_workers_use_no_unix_socket_whose_folder_spark_refuses() -> None:
    """Spark 4.2 ends with INVALID_CONF_VALUE for 62 characters and runs with 61."""
    short, long = Path("/" + "x" * 60), Path("/" + "x" * 61)

    assert socket_settings(short)["spark.python.unix.domain.socket.dir"] == str(short)
    assert socket_settings(long) == {}


@pytest.mark.parametrize(("size", "given"), [(5, True), (4, False)], ids=["whole", "cut off"])
def test_java_gets_a_whole_archive_of_classes_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, *, given: bool
) -> None:
    monkeypatch.setattr(spark_session, "CLASS_ARCHIVES", tmp_path)
    archive = tmp_path / "5.jsa"
    archive.write_bytes(bytes(size))

    options = spark_session._class_options(None)

    assert (f"-XX:SharedArchiveFile={archive}" in options) == given
