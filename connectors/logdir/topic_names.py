"""The names of the topics that files of the metadata log create."""

from collections.abc import Iterable

from connectors.logdir.log_byte_ranges import LogByteRange, read_range
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_snapshot_piece
from connectors.observations.log_event import TopicCreated

_TOPIC_RECORD = bytes((1, 2))
"""Frame version and api key with which the value of every TopicRecord begins."""


def topic_names(parts: Iterable[LogByteRange]) -> dict[str, str]:
    """Returns the name of each topic by its id. Batches that contain no TopicRecord are not decoded.

    Raises:
        UsageError: a file cannot be read.
    """
    names: dict[str, str] = {}
    for part in parts:
        content = read_range(part)
        for item in scan(content):
            if not isinstance(item, RecordBatch) or content.find(_TOPIC_RECORD, item.body, item.end) < 0:
                continue
            for event in decode_snapshot_piece(content[item.position : item.end], end_offset=0, epoch=0).events():
                if isinstance(event, TopicCreated):
                    names[event.topic_id] = event.name
    return names
