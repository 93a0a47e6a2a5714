"""Topics: names and partition assignments, and their form in state blobs of versions 1 to 3."""

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from rules.model.identifiers import TopicId
from streaming.replay.assignment import Assignment


@dataclass(slots=True, kw_only=True)
class Topic:
    """A topic; its name is None until a TopicRecord is read."""

    name: str | None = None
    partitions: dict[int, Assignment] = field(default_factory=dict)


_Row: TypeAlias = "tuple[str, str | None, list[int] | None, list[int], list[int | None], list[int | None]]"
"""Topic id, name, partition numbers (None: 0, 1, 2, ...), and for each its index into the assignments, its leader
epoch and its partition epoch."""


def unpack(packed: bytes) -> dict[TopicId, Topic]:
    """Returns the topics of a state blob of version 2 or 3: distinct assignments, to which partitions refer."""
    document = json.loads(zlib.decompress(packed))
    assignments = [
        (tuple(replicas), tuple(isr), tuple(elr), tuple(last_known_elr), leader)
        for replicas, isr, elr, last_known_elr, leader in document["assignments"]
    ]
    rows: list[_Row] = document["topics"]
    return {
        TopicId(topic_id): Topic(
            name=name,
            partitions={
                number: Assignment(*assignments[pointer], leader_epoch, partition_epoch)
                for number, pointer, leader_epoch, partition_epoch in zip(
                    range(len(pointers)) if numbers is None else numbers,
                    pointers,
                    leader_epochs,
                    partition_epochs,
                    strict=True,
                )
            },
        )
        for topic_id, name, numbers, pointers, leader_epochs, partition_epochs in rows
    }


def from_version_1(packed: bytes) -> bytes:
    """Converts topics of a version 1 blob to those of version 2: version 1 had no epochs and no last known ELR."""
    if not packed:
        return packed
    document = json.loads(zlib.decompress(packed))
    assignments: list[object] = [
        (replicas, isr, elr, [], leader) for replicas, isr, elr, leader in document["assignments"]
    ]
    rows = [(*row, [None] * len(row[-1]), [None] * len(row[-1])) for row in document["topics"]]
    return _packed(assignments, rows)


def _packed(assignments: Iterable[object], rows: Iterable[object]) -> bytes:
    document = {"assignments": [*assignments], "topics": [*rows]}
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode(), level=1)
