"""What a machine would store, as values: its bytes also depend on when partitions were stored before."""

from collections.abc import Mapping
from typing import NamedTuple

from rules.model.identifiers import TopicId
from streaming.replay.machine import Machine
from streaming.replay.stored_topics import Topic


class StoredValues(NamedTuple):
    """The hot section of a state, and the topics of its two logs."""

    hot: bytes
    topics: Mapping[TopicId, Topic]
    loading_topics: Mapping[TopicId, Topic] | None


def stored_values(machine: Machine) -> StoredValues:
    """Returns what the machine would store."""
    blob, loading = machine.to_bytes(), machine.loading
    hot = blob[4 : 4 + int.from_bytes(blob[:4], "big")]
    return StoredValues(hot, machine.log.partitions.topics, None if loading is None else loading.partitions.topics)
