"""Reads a snapshot with Kafka's own reader (`DumpLogSegments`), where Kafka and Java are installed."""

import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from connectors.errors import UsageError

_CLASSES: Final = ("org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments")
"""The newest name first; Kafka 3.x has the second one."""
_TIMEOUT_S: Final = 600
_RECORD: Final = re.compile(r"^\| offset: ", re.MULTILINE)
_INVALID: Final = "isvalid: false"


def kafka_jars(home: Path) -> str:
    """Returns the Java class path of a Kafka installation.

    Raises:
        UsageError: there are no jars in the folder.
    """
    for folder in (home / "libs", home):
        if any(folder.glob("*.jar")):
            return f"{folder}/*"
    raise UsageError(f"--kafka-home {home}: neither it nor {home / 'libs'} holds Kafka's jars")


def records_read_by_kafka(snapshot: Path, name: str, class_path: str) -> int:
    """Returns how many records Kafka's reader finds in a snapshot, control records included.

    Args:
        snapshot: the file.
        name: the name that Kafka must see: it reads a `.checkpoint` differently.
        class_path: Kafka's jars.

    Raises:
        UsageError: Java cannot be started, or Kafka's reader refuses the file.
    """
    with TemporaryDirectory(prefix="kraftwatch-") as folder:
        link = Path(folder) / name
        link.symlink_to(snapshot.resolve())
        newest, *older = (
            ["java", "-cp", class_path, name_, "--cluster-metadata-decoder", "--files", str(link)] for name_ in _CLASSES
        )
        ended = _run(newest)
        for command in older:
            if "ClassNotFoundException" in ended.stderr:
                ended = _run(command)
        if ended.returncode != 0 or _INVALID in ended.stdout:
            reason = (ended.stderr.strip().splitlines() or ["a batch is not valid"])[0]
            raise UsageError(f"Kafka's own reader refuses the snapshot that would be written: {reason}")
        return len(_RECORD.findall(ended.stdout))


def _run(command: list[str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise UsageError("--kafka-home needs Java: the command java is not found in PATH") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"Kafka's own reader did not end within {_TIMEOUT_S} s") from None
