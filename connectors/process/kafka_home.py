"""A Kafka installation of this host: its jars."""

from pathlib import Path

from connectors.errors import UsageError


def class_path_of(home: Path, option: str) -> str:
    """Returns the Java class path of a Kafka installation; `option` names it for people."""
    for folder in (home / "libs", home):
        if any(folder.glob("*.jar")):
            return f"{folder}/*"
    raise UsageError(f"{option} {home}: neither it nor {home / 'libs'} holds Kafka's jars")
