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

from connectors.columns import events_of
from connectors.metadata.batches import Batch, scan
from connectors.metadata.decode import decode
from deploy.lab.jars import KAFKA_VERSION, kafka_jars
from rules.quorum import Endpoint, Millis, TopicId, Vantage, VoterSet
from streaming.replay.machine import Machine
from streaming.replay.topics import Assignment

HERE = Path(__file__).parent
PIECE_BYTES = 1 << 20
"""How much of a log one observation holds here at most; a batch of Raft's own records is one by itself."""

Fact: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Files to replay, in order; with `snapshot`, Kafka writes one of its image there, at that offset or soon after."""

    paths: tuple[Path, ...]
    snapshot: tuple[Path, int] | None = None

    def __str__(self) -> str:
        """As Image.java takes it."""
        paths = ",".join(map(str, self.paths))
        return paths if self.snapshot is None else f"{paths}>{self.snapshot[0]}@{self.snapshot[1]}"


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


def facts(case: Case) -> list[Fact]:
    """What our replay says of a case."""
    machine = Machine("image", None, (), Vantage.INSIDE)
    told: list[Fact] = []
    for path in map(_only, case.paths):
        told += _snapshot(machine, path) if path.suffix == ".checkpoint" else _log(machine, path)
    assert machine.undecodable == 0
    assert not machine.behind
    return told + list(_image(machine))


def _only(path: Path) -> Path:
    return next(path.glob("*.checkpoint")) if path.is_dir() else path


def _snapshot(machine: Machine, path: Path) -> Iterator[Fact]:
    end_offset, epoch = map(int, path.stem.split("-"))
    _observe(machine, path.read_bytes(), kind="snapshot", base_offset=end_offset, last_offset=None, epoch=epoch)
    committed = machine.log.image.committed
    if committed is not None:
        yield _voters(committed)


def _log(machine: Machine, path: Path) -> Iterator[Fact]:
    """Observation by observation, so that each of Raft's own records is seen as it takes effect."""
    payload, start = path.read_bytes(), 0
    piece: list[Batch] = []
    for batch in [*_batches(payload), None]:
        if piece and (batch is None or batch.is_control or piece[0].is_control or _size(piece) > PIECE_BYTES):
            before = machine.log.image
            end = start + _size(piece)
            if piece[-1].last_offset > machine.log.position:
                _observe(
                    machine,
                    payload[start:end],
                    kind="records",
                    base_offset=piece[0].base_offset,
                    last_offset=piece[-1].last_offset,
                    epoch=piece[-1].leader_epoch,
                )
            after = machine.log.image
            if after.committed is not None and after.committed != before.committed:
                yield _voters(after.committed)
            if len(after.past.elections) and after.past.elections[-1:] != before.past.elections[-1:]:
                won = after.past.elections[-1]
                yield {
                    "fact": "leader",
                    "offset": won.offset,
                    "epoch": won.leader_epoch,
                    "timestamp": won.timestamp_ms,
                    "leader_id": won.leader_id,
                }
            start, piece = end, []
        if batch is not None:
            piece.append(batch)


def _size(piece: Iterable[Batch]) -> int:
    return sum(batch.size for batch in piece)


def _batches(payload: bytes) -> Iterator[Batch]:
    for batch in scan(payload):
        assert isinstance(batch, Batch), f"a batch that cannot be read: {batch}"
        yield batch


def _observe(
    machine: Machine, payload: bytes, *, kind: str, base_offset: int, last_offset: int | None, epoch: int
) -> None:
    high_watermark = None if last_offset is None else last_offset + 1
    table = decode(
        payload,
        kind=kind,
        base_offset=base_offset,
        last_offset=last_offset,
        leader_epoch=epoch,
        high_watermark=high_watermark,
    )
    sequence = machine.sequence + 1
    machine.apply(events_of(table.columns()), sequence=sequence, observed_at_ms=Millis(sequence))


def _image(machine: Machine) -> Iterator[Fact]:
    image, quorum = machine.shown, machine.quorum()
    yield {
        "fact": "end",
        "last_offset": image.last_offset,
        "epoch": machine.log.epoch,
        "timestamp": image.newest_timestamp_ms,
    }
    yield {"fact": "kraft.version", "level": quorum.kraft_version}
    yield {"fact": "metadata.version", "level": quorum.metadata_version}
    for broker in quorum.brokers.values():
        yield {
            "fact": "broker",
            "id": broker.id,
            "incarnation_id": broker.incarnation_id,
            "fenced": broker.fenced,
            "in_controlled_shutdown": broker.in_controlled_shutdown,
            "endpoints": _endpoints(broker.endpoints),
        }
    for controller in quorum.controllers.values():
        yield {
            "fact": "controller",
            "id": controller.id,
            "incarnation_id": controller.incarnation_id,
            "endpoints": _endpoints(controller.endpoints),
        }
    recovering = {(one.topic_id, one.partition) for one in quorum.recovering}
    for topic_id, topic in machine.log.partitions.topics.items():
        yield {"fact": "topic", "id": topic_id, "name": topic.name}
        for number, held in topic.partitions.items():
            yield _partition(topic_id, number, held, recovering=(topic_id, number) in recovering)


def _partition(topic_id: TopicId, number: int, held: Assignment, *, recovering: bool) -> Fact:
    return {
        "fact": "partition",
        "topic_id": topic_id,
        "partition": number,
        "replicas": [*held.replicas],
        "isr": [*held.isr],
        "elr": [*held.elr],
        "last_known_elr": [*held.last_known_elr],
        "leader": held.leader,
        "leader_epoch": held.leader_epoch,
        "partition_epoch": held.partition_epoch,
        "recovering": recovering,
    }


def _voters(committed: VoterSet) -> Fact:
    return {
        "fact": "voters",
        "offset": committed.offset,
        "epoch": committed.leader_epoch,
        "timestamp": committed.timestamp_ms,
        "voters": [
            {
                "id": voter.key.id,
                "directory_id": voter.key.directory_id,
                "endpoints": [[one.listener, one.host, one.port] for one in voter.endpoints],
            }
            for voter in sorted(committed.voters, key=lambda voter: voter.key.id)
        ],
    }


def _endpoints(endpoints: Iterable[Endpoint]) -> list[list[Any]]:
    return sorted([one.listener, one.host, one.port] for one in endpoints)


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
