"""Topics: their names and their partitions' assignments, and how they are packed into bytes."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from rules.quorum import NodeId, TopicId


class Assignment(NamedTuple):
    """Where a partition lives: replicas, in-sync replicas, eligible leader replicas (KIP-966), leader."""

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    elr: tuple[NodeId, ...]
    leader: NodeId | None


@dataclass(slots=True, kw_only=True)
class Topic:
    """A topic; its name is None while no TopicRecord told it."""

    name: str | None = None
    partitions: dict[int, Assignment] = field(default_factory=dict)


_Row: TypeAlias = "tuple[str, str | None, list[int] | None, list[int]]"
"""Topic id, name, partition numbers (None: 0, 1, 2, ...), and for each its index into the assignments."""


def pack(topics: Mapping[TopicId, Topic]) -> bytes:
    """Topics as deflated JSON: each distinct assignment is written once, partitions only point at it."""
    index: dict[Assignment, int] = {}
    rows: list[_Row] = []
    for topic_id, topic in topics.items():
        partitions = topic.partitions
        pointers = [index.setdefault(assignment, len(index)) for assignment in partitions.values()]
        numbers = list(partitions)
        rows.append((topic_id, topic.name, None if numbers == list(range(len(numbers))) else numbers, pointers))
    document = {"assignments": [*index], "topics": rows}
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode(), level=1)


def unpack(packed: bytes) -> dict[TopicId, Topic]:
    """The topics that `pack` packed."""
    if not packed:
        return {}
    document = json.loads(zlib.decompress(packed))
    assignments = [
        Assignment(tuple(replicas), tuple(isr), tuple(elr), leader)
        for replicas, isr, elr, leader in document["assignments"]
    ]
    rows: list[_Row] = document["topics"]
    return {
        TopicId(topic_id): Topic(
            name=name,
            partitions={
                number: assignments[pointer]
                for number, pointer in zip(range(len(pointers)) if numbers is None else numbers, pointers, strict=True)
            },
        )
        for topic_id, name, numbers, pointers in rows
    }
