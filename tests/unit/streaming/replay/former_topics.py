"""Writes topics as state blobs of versions 2 and 3 held them."""

import json
import zlib
from collections.abc import Mapping

from rules.model.identifiers import TopicId
from streaming.replay.topic_codec import Topic

_EPOCHS = 2
"""The number of an assignment's last fields that are written for each partition."""


def former_topics(topics: Mapping[TopicId, Topic]) -> bytes:
    """Returns topics as deflated JSON: each distinct assignment is written once, partitions hold its index."""
    index: dict[tuple[object, ...], int] = {}
    rows: list[tuple[object, ...]] = []
    for topic_id, topic in topics.items():
        partitions = topic.partitions
        pointers = [index.setdefault(assignment[:-_EPOCHS], len(index)) for assignment in partitions.values()]
        numbers = list(partitions)
        leader_epochs = [assignment.leader_epoch for assignment in partitions.values()]
        partition_epochs = [assignment.partition_epoch for assignment in partitions.values()]
        stored = None if numbers == list(range(len(numbers))) else numbers
        rows.append((topic_id, topic.name, stored, pointers, leader_epochs, partition_epochs))
    document = {"assignments": [*index], "topics": rows}
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode(), level=1)
