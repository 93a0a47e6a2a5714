"""What a machine would store, as values: its bytes also depend on when partitions were stored before."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rules.model.identifiers import TopicId
from streaming.replay.machine import Machine
from streaming.replay.stored_topics import Topic


class StoredValues(NamedTuple):
    """The hot section of a state, those of its images and transactions, and the topics of its two logs."""

    hot: bytes
    values: Sequence[bytes]
    topics: Mapping[TopicId, Topic]
    loading_topics: Mapping[TopicId, Topic] | None


def stored_values(machine: Machine) -> StoredValues:
    """Returns what the machine would store."""
    blob, loading = machine.to_bytes(), machine.loading
    sections: list[bytes] = []
    while blob:
        size = 4 + int.from_bytes(blob[:4], "big")
        sections.append(blob[4:size])
        blob = blob[size:]
    hot, _, _, *values = sections
    topics = None if loading is None else loading.partitions.topics
    return StoredValues(hot, values, machine.log.partitions.topics, topics)
