"""The image: what our replay makes of a metadata log, held against Kafka's own MetadataImage, field by field.

A case is files in order: perhaps a snapshot, then logs, which are read from the snapshot's end on. Of each both sides
tell facts: every VotersRecord and LeaderChangeMessage as it came, and at the end every topic, partition, registration
and version. `make parity` compares a million records (`main`).
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from deploy.lab.jars import KAFKA_VERSION, kafka_jars
from tests.kafka.replay_output import Case, Fact, facts

HERE = Path(__file__).parent
Key: TypeAlias = tuple[Any, ...]


@dataclass(kw_only=True)
class Compared:
    """What a comparison came to."""

    facts: int
    differences: list[str]


def compare(cases: Sequence[Case]) -> Compared:
    """Replay each case with Kafka's classes and with ours."""
    compared = Compared(facts=0, differences=[])
    for case, theirs in zip(cases, kafkas(cases), strict=True):
        compared.facts += len(theirs)
        compared.differences += [f"{case}: {each}" for each in differences(by_key(theirs), by_key(facts(case)))]
    return compared


def kafkas(cases: Sequence[Case]) -> list[list[Fact]]:
    """What Kafka says of each case; a case may need what it wrote in an earlier one."""
    told: list[list[Fact]] = []
    said: list[str] = []
    for line in _java("Image", *map(str, cases)):
        fact = json.loads(line)
        if "case" in fact:
            said.append(fact["case"])
            told.append([])
        else:
            told[-1].append(fact)
    assert said == [*map(str, cases)], "Kafka did not replay every case"
    return told


def history(path: Path, *, seed: int, records: int) -> dict[str, int]:
    """Have Kafka's classes write a random history; how many records of each type it holds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    said = next(line for line in _java("History", str(path), str(seed), str(records)) if line.startswith("{"))
    return {name: int(count) for name, _, count in (each.partition("=") for each in said.strip("{}").split(", "))}


def differences(kafkas: Mapping[Key, Fact], ours: Mapping[Key, Fact]) -> Iterator[str]:
    """One sentence a field that is not the same on both sides, or a fact that only one side has."""
    for key, fact in kafkas.items():
        our = ours.get(key)
        if our is None:
            yield f"{_named(key)} is known to Kafka and not to us"
            continue
        for name in fact.keys() | our.keys():
            if fact.get(name) != our.get(name):
                yield f"{_named(key)}: {name} is {fact.get(name)} for Kafka, {our.get(name)} for us"
    yield from (f"{_named(key)} is known to us and not to Kafka" for key in ours if key not in kafkas)


_IDENTITY = ("offset", "topic_id", "id", "partition")
"""What tells facts of one kind apart."""


def by_key(facts_: Iterable[Fact]) -> dict[Key, Fact]:
    """Facts by what they are about, of which there must be one each."""
    found: dict[Key, Fact] = {}
    for fact in facts_:
        key = (fact["fact"], *(fact[name] for name in _IDENTITY if name in fact))
        assert key not in found, f"{_named(key)} is told twice"
        found[key] = fact
    return found


def _named(key: Key) -> str:
    return " ".join(map(str, key))


def _java(source: str, *arguments: str) -> list[str]:
    """The lines that one of the Java programs beside this file prints."""
    command = ["java", "-Xmx4g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"]
    command += ["-cp", f"{kafka_jars(KAFKA_VERSION)}/*", str(HERE / f"{source}.java"), *arguments]
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def big(folder: Path, *, seed: int, records: int) -> Compared:
    """A random history: its log as a whole, then Kafka's snapshot in the middle of it and the log from there on."""
    log, snapshots = folder / "00000000000000000000.log", folder / "snapshots"
    history(log, seed=seed, records=records)
    snapshots.mkdir()
    return compare([Case(paths=(log,), snapshot=(snapshots, records // 2)), Case(paths=(snapshots, log))])


def main() -> int:
    """Compare a million records, or as many as asked; the exit code says whether all is the same."""
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory(prefix="kraftwatch-image-") as folder:
        compared = big(Path(folder), seed=1, records=records)
    for difference in compared.differences[:20]:
        sys.stdout.write(f"{difference}\n")
    sys.stdout.write(
        f"image: {records} records replayed, {compared.facts} facts compared, {len(compared.differences)} differences\n"
    )
    return 1 if compared.differences else 0


if __name__ == "__main__":
    sys.exit(main())
