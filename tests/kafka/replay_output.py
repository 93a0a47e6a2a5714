"""The facts that our replay reports of a case: files of a metadata log, split into observations as by the gatherer."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.metadata.value_limits import LATEST_TIMESTAMP_MS
from connectors.observations.partition_run import DecodedEvents
from rules.model.identifiers import Endpoint, Millis, TopicId
from rules.model.membership import BrokerRegistration, FeatureRange, VoterSet
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.directory_numbers import MIGRATING, UNASSIGNED, UNASSIGNED_ID, DirectoryNumbers
from streaming.replay.machine import Machine
from streaming.replay.stored_topics import Assignment

PIECE_BYTES = 1 << 20
"""The maximal size of one observation here; a control batch is an observation of its own."""

Fact: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayCase:
    """Files to replay, in order. With `snapshot`, Kafka writes its image to that folder at or after that offset."""

    paths: tuple[Path, ...]
    snapshot: tuple[Path, int] | None = None

    def __str__(self) -> str:
        """Returns the case as the argument of Image.java."""
        paths = ",".join(map(str, self.paths))
        return paths if self.snapshot is None else f"{paths}>{self.snapshot[0]}@{self.snapshot[1]}"


def replay_facts(case: ReplayCase) -> list[Fact]:
    """Returns the facts of our replay of a case."""
    machine = Machine(ClusterSettings(name="image"))
    found: list[Fact] = []
    for path in map(_only, case.paths):
        found += _snapshot(machine, path) if path.suffix == ".checkpoint" else _log(machine, path)
    assert machine.undecodable == 0
    assert not machine.behind
    return found + list(_image(machine))


def _only(path: Path) -> Path:
    return next(path.glob("*.checkpoint")) if path.is_dir() else path


def _snapshot(machine: Machine, path: Path) -> Iterator[Fact]:
    end_offset, epoch = map(int, path.stem.split("-"))
    _apply(machine, decode_snapshot_piece(path.read_bytes(), end_offset=end_offset, epoch=epoch))
    committed = machine.log.image.committed
    if committed is not None:
        yield _voters(committed)


def _log(machine: Machine, path: Path) -> Iterator[Fact]:
    """Replays the log observation by observation, so that the state is visible after each control record."""
    payload, start = path.read_bytes(), 0
    piece: list[RecordBatch] = []
    for batch in [*_batches(payload), None]:
        if piece and (batch is None or batch.is_control or piece[0].is_control or _size(piece) > PIECE_BYTES):
            before = machine.log.image
            end = start + _size(piece)
            if piece[-1].last_offset > machine.log.position:
                last_offset = piece[-1].last_offset
                events = decode_records(
                    payload[start:end],
                    base_offset=piece[0].base_offset,
                    last_offset=last_offset,
                    leader_epoch=piece[-1].leader_epoch,
                    high_watermark=last_offset + 1,
                )
                _apply(machine, events)
            after = machine.log.image
            if after.committed is not None and after.committed != before.committed:
                yield _voters(after.committed)
            if len(after.history.elections) and after.history.elections[-1:] != before.history.elections[-1:]:
                won = after.history.elections[-1]
                yield _fact("leader", won, "offset", "leader_id", epoch=won.leader_epoch, timestamp=won.timestamp_ms)
            start, piece = end, []
        if batch is not None:
            piece.append(batch)


def _size(piece: Iterable[RecordBatch]) -> int:
    return sum(batch.size for batch in piece)


def _batches(payload: bytes) -> Iterator[RecordBatch]:
    for batch in scan(payload):
        assert isinstance(batch, RecordBatch), f"a batch that cannot be read: {batch}"
        yield batch


def _apply(machine: Machine, events: DecodedEvents) -> None:
    sequence = machine.sequence + 1
    # Read long after it was written, and not as soon as it was written: no timestamp is corrected.
    observed_at_ms = Millis(LATEST_TIMESTAMP_MS + 60_000 * sequence)
    machine.apply(events, sequence=sequence, observed_at_ms=observed_at_ms)


def _fact(kind: str, source: object, *names: str, **values: Any) -> Fact:
    """Returns a fact with these fields of an object and these values."""
    return {"fact": kind, **{name: getattr(source, name) for name in names}, **values}


def _image(machine: Machine) -> Iterator[Fact]:
    image, quorum = machine.visible_image, machine.quorum()
    yield _fact("end", image, "last_offset", epoch=machine.log.epoch, timestamp=image.newest_timestamp_ms)
    yield {"fact": "kraft.version", "level": quorum.kraft_version}
    yield {"fact": "features", "levels": dict(quorum.features)}
    states = ("id", "incarnation_id", "fenced", "in_controlled_shutdown")
    for kind, registered, names in (("broker", quorum.brokers, states), ("controller", quorum.controllers, states[:2])):
        for node in registered.values():
            found = {"endpoints": _endpoints(node.endpoints), "features": _features(node.features)}
            if isinstance(node, BrokerRegistration):
                found["log_dirs"] = [*node.log_dirs]
            yield _fact(kind, node, *names, **found)
    recovering = {(one.topic_id, one.partition) for one in quorum.recovering}
    for topic_id, topic in machine.log.partitions.topics.items():
        yield {"fact": "topic", "id": topic_id, "name": topic.name}
        for number, held in topic.partitions.items():
            is_recovering = (topic_id, number) in recovering
            directories = _directories(machine.log.partitions.directories, held)
            yield _partition(topic_id, number, held, recovering=is_recovering, directories=directories)


def _directories(numbers: DirectoryNumbers, held: Assignment) -> list[str]:
    """Returns the ids of a partition's directories; Kafka assumes the zero UUID where a record has none."""
    reserved = {MIGRATING: "A" * 22, UNASSIGNED: UNASSIGNED_ID}
    of_replicas = zip(held.replicas, held.directories or [MIGRATING] * len(held.replicas), strict=True)
    return [reserved.get(number) or str(numbers.directory(node, number)) for node, number in of_replicas]


def _partition(topic_id: TopicId, number: int, held: Assignment, **of_partition: object) -> Fact:
    replicas = {name: [*getattr(held, name)] for name in ("replicas", "isr", "elr", "last_known_elr")}
    of = {"topic_id": topic_id, "partition": number, **of_partition}
    return _fact("partition", held, "leader", "leader_epoch", "partition_epoch", **replicas, **of)


def _voters(committed: VoterSet) -> Fact:
    voters = [
        {
            "id": one.key.id,
            "directory_id": one.key.directory_id,
            "endpoints": [[each.listener, each.host, each.port] for each in one.endpoints],
        }
        for one in sorted(committed.voters, key=lambda one: one.key.id)
    ]
    at = {"epoch": committed.leader_epoch, "timestamp": committed.timestamp_ms}
    return _fact("voters", committed, "offset", **at, voters=voters)


def _endpoints(endpoints: Iterable[Endpoint]) -> list[list[Any]]:
    return sorted([one.listener, one.host, one.port] for one in endpoints)


def _features(features: Iterable[FeatureRange] | None) -> dict[str, list[int]]:
    return {one.name: [one.lowest, one.highest] for one in features or ()}
