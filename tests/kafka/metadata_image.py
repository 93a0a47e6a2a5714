"""Compares the state that our replay builds from a metadata log with Kafka's own MetadataImage, field by field.

A case is a list of files in order: optionally a snapshot, then logs, which are read from the snapshot's end on. Both
sides report facts: every VotersRecord and LeaderChangeMessage in order, and at the end every topic, partition,
registration and version. `make parity` compares a million records (`main`).
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from deploy.lab.jars import kafka_jars
from deploy.schemas.schema_file import KAFKA_VERSIONS
from tests.kafka.replay_output import Fact, ReplayCase, replay_facts

HERE = Path(__file__).parent
Key: TypeAlias = tuple[Any, ...]


@dataclass(kw_only=True)
class ImageComparison:
    """The result of a comparison: the number of facts and the differences."""

    facts: int
    differences: list[str]


def compare(cases: Sequence[ReplayCase]) -> ImageComparison:
    """Replays each case with Kafka's classes and with ours."""
    compared = ImageComparison(facts=0, differences=[])
    for case, theirs in zip(cases, kafka_facts(cases), strict=True):
        compared.facts += len(theirs)
        compared.differences += [
            f"{case}: {each}" for each in differences(facts_by_key(theirs), facts_by_key(replay_facts(case)))
        ]
    return compared


def kafka_facts(cases: Sequence[ReplayCase]) -> list[list[Fact]]:
    """Returns Kafka's facts of each case. A case may need a snapshot that Kafka wrote in an earlier case."""
    found: list[list[Fact]] = []
    replayed: list[str] = []
    for line in _java("Image", *map(str, cases)):
        fact = json.loads(line)
        if "case" in fact:
            replayed.append(fact["case"])
            found.append([])
        else:
            found[-1].append(fact)
    assert replayed == [*map(str, cases)], "Kafka did not replay every case"
    return found


def kafka_records(partition: Path) -> list[str]:
    """Returns every record of the image that Kafka makes of a log directory, sorted: topics, configurations, ACLs, ...

    Args:
        partition: the folder of a metadata log; Kafka reads its newest snapshot and the log after it.
    """
    files = [*sorted(partition.glob("*.checkpoint"))[-1:], *sorted(partition.glob("*.log"))]
    lines = [json.loads(line) for line in _java("Image", "--records", ",".join(map(str, files)))]
    return sorted(line["text"] for line in lines if line.get("fact") == "record")


def write_history(path: Path, *, seed: int, records: int) -> dict[str, int]:
    """Writes a random history with Kafka's classes; returns the number of records of each type."""
    path.parent.mkdir(parents=True, exist_ok=True)
    counts = next(line for line in _java("History", str(path), str(seed), str(records)) if line.startswith("{"))
    return {name: int(count) for name, _, count in (each.partition("=") for each in counts.strip("{}").split(", "))}


def differences(theirs: Mapping[Key, Fact], ours: Mapping[Key, Fact]) -> Iterator[str]:
    """Yields one sentence for each field that differs, and for each fact that only one side has."""
    for key, fact in theirs.items():
        our = ours.get(key)
        if our is None:
            yield f"{_key_text(key)} is known to Kafka and not to us"
            continue
        for name in fact.keys() | our.keys():
            if fact.get(name) != our.get(name):
                yield f"{_key_text(key)}: {name} is {fact.get(name)} for Kafka, {our.get(name)} for us"
    yield from (f"{_key_text(key)} is known to us and not to Kafka" for key in ours if key not in theirs)


_IDENTITY = ("offset", "topic_id", "id", "partition")
"""The fields that identify a fact of one kind."""


def facts_by_key(facts_: Iterable[Fact]) -> dict[Key, Fact]:
    """Returns the facts by their identity. Each identity must occur once."""
    found: dict[Key, Fact] = {}
    for fact in facts_:
        key = (fact["fact"], *(fact[name] for name in _IDENTITY if name in fact))
        assert key not in found, f"{_key_text(key)} is reported twice"
        found[key] = fact
    return found


def _key_text(key: Key) -> str:
    return " ".join(map(str, key))


def _java(source: str, *arguments: str) -> list[str]:
    """Runs one of the Java programs beside this file and returns the lines that it prints."""
    command = ["java", "-Xmx4g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"]
    command += ["-cp", f"{kafka_jars(KAFKA_VERSIONS[-1])}/*", str(HERE / f"{source}.java"), *arguments]
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def compare_large_history(folder: Path, *, seed: int, records: int) -> ImageComparison:
    """Compares a random history: the whole log, and Kafka's snapshot from its middle with the log after it."""
    log, snapshots = folder / "00000000000000000000.log", folder / "snapshots"
    write_history(log, seed=seed, records=records)
    snapshots.mkdir()
    return compare([ReplayCase(paths=(log,), snapshot=(snapshots, records // 2)), ReplayCase(paths=(snapshots, log))])


def main(records: int = 1_000_000) -> int:
    """Compares so many records; returns 1 if there are differences."""
    with tempfile.TemporaryDirectory(prefix="kraftwatch-image-") as folder:
        compared = compare_large_history(Path(folder), seed=1, records=records)
    for difference in compared.differences[:20]:
        sys.stdout.write(f"{difference}\n")
    sys.stdout.write(
        f"image: {records} records replayed, {compared.facts} facts compared, {len(compared.differences)} differences\n"
    )
    return 1 if compared.differences else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
