"""Dumps a file as `dump_log` does, with the fields of the frequent records already rendered as text.

Partition records and NoOps of the shape that Kafka writes are rendered from numpy arrays. All other records are the
DumpedRecords of `dump_log`. The text is what `json.dumps` makes of their fields.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from connectors.event_block import UUID_TEXT
from connectors.metadata.batches import MOST_BYTES, RecordBatch
from connectors.metadata.byte_views import uuid_texts
from connectors.metadata.dump_log import (
    LOG_APPEND_TIME,
    DumpEntry,
    DumpGap,
    DumpProgress,
    RecordText,
    dump_record,
    readable_batches,
)
from connectors.metadata.json_rendering import BLANK
from connectors.metadata.name_shape import (
    config_shape,
    is_config_record,
    is_legal_name,
    is_topic_record,
    topic_shape,
)
from connectors.metadata.partition_shape import is_partition_record, partition_shape
from connectors.metadata.partition_text import FieldStyle, PartitionRenderer, end_without_tags
from connectors.metadata.record_framing import framed_record, framed_records
from connectors.metadata.record_table import RecordTable, record_table

_NOOP: Final = 20
_CONFIG_JSON: Final = b'{"resourceType":%d,"resourceName":"%b","name":"%b","value":%b}'
_CONFIG_TEXT: Final = b'resourceType=%d resourceName="%b" name="%b" value=%b'


def dump_texts(segment: bytes, *, style: FieldStyle, secrets: bool) -> Iterator[DumpEntry | RecordText]:
    """Yields every record of a file, in order, and now and then a DumpProgress.

    Args:
        segment: the bytes of a `.log` or `.checkpoint`.
        style: how fields are rendered.
        secrets: show credentials and the values of configurations, which are blanked otherwise.
    """
    run: list[RecordBatch] = []
    for batch in readable_batches(segment):
        is_metadata = not isinstance(batch, DumpGap) and not batch.is_control
        if run and (not is_metadata or run[-1].end - run[0].position >= MOST_BYTES):
            yield from _run_entries(segment, run, style, secrets=secrets)
            run = []
        if isinstance(batch, DumpGap):
            yield batch
        elif batch.is_control:
            yield from _batch_entries(segment, batch, secrets=secrets)
        else:
            run.append(batch)
    if run:
        yield from _run_entries(segment, run, style, secrets=secrets)


def _batch_entries(segment: bytes, batch: RecordBatch, *, secrets: bool) -> Iterator[DumpEntry]:
    for record in framed_records(segment, batch):
        yield dump_record(segment, batch, record, None, secrets=secrets)


def _run_entries(
    segment: bytes, run: Sequence[RecordBatch], style: FieldStyle, *, secrets: bool
) -> Iterator[DumpEntry | RecordText]:
    """Yields the records of batches that are not control batches."""
    table = record_table(segment, run)
    texts = _texts(table, segment, style, secrets=secrets)
    positions = [
        (batch.base_offset, batch.leader_epoch, batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else None)
        for batch in run
    ]
    timestamps = [
        batch.base_timestamp if appended is None else appended
        for batch, (_, _, appended) in zip(run, positions, strict=True)
    ]
    unusual = [*table.unusual_batches, (len(texts), -1)]
    following, next_at = 0, unusual[0][0]
    columns = zip(texts, table.batch.tolist(), table.delta.tolist(), table.version.tolist(), strict=True)
    for index, (text, which, delta, version) in enumerate(columns):
        while index == next_at:
            yield from _batch_entries(segment, run[unusual[following][1]], secrets=secrets)
            following += 1
            next_at = unusual[following][0]
        if text is None:
            batch = run[which]
            record = framed_record(segment, int(table.start[index]) + table.origin, batch, delta)
            yield dump_record(segment, batch, record, None, secrets=secrets)
        else:
            base_offset, epoch, _ = positions[which]
            yield RecordText(base_offset + delta, epoch, timestamps[which], text[0], version, text[1])
    for _, which in unusual[following:-1]:
        yield from _batch_entries(segment, run[which], secrets=secrets)
    yield DumpProgress(position=run[-1].end)


def _texts(table: RecordTable, segment: bytes, style: FieldStyle, *, secrets: bool) -> list[tuple[str, str] | None]:
    """Returns the type and the rendered fields of each record; None if `dump_log` has to read it."""
    texts: list[tuple[str, str] | None] = [None] * len(table.start)
    octets = table.views.bytes
    noops = table.usual & (table.type == _NOOP) & (table.version == 0)
    noops &= (table.body + 1 == table.end) & (octets[table.body] == 0)
    no_fields = ("NO_OP_RECORD", "{}" if style == "json" else "")
    for index in np.flatnonzero(noops).tolist():
        texts[index] = no_fields
    for index, text in _topics(table, segment, style):
        texts[index] = ("TOPIC_RECORD", text)
    if not secrets:
        for index, text in _configs(table, segment, style):
            texts[index] = ("CONFIG_RECORD", text)
    at = np.flatnonzero(table.usual & is_partition_record(table.type, table.version))
    shape = partition_shape(table.views, table.type[at], table.version[at], table.body[at], table.end[at])
    renderer = PartitionRenderer(segment, table, shape, style)
    # A tagged field of a PartitionRecord that equals its default is not distinguished from an absent one.
    rows = np.flatnonzero(shape.usual & ~shape.changed & (table.end[at] == end_without_tags(shape)))
    for index, text in zip(at[rows].tolist(), renderer.partitions(rows), strict=True):
        texts[index] = ("PARTITION_RECORD", text)
    rows = np.flatnonzero(shape.usual & shape.changed)
    for index, text in zip(at[rows].tolist(), renderer.changes(rows), strict=True):
        texts[index] = ("PARTITION_CHANGE_RECORD", text)
    return texts


def _topics(table: RecordTable, segment: bytes, style: FieldStyle) -> Iterator[tuple[int, str]]:
    """Yields the index and the fields of each TopicRecord of the usual shape whose name JSON does not escape."""
    at = np.flatnonzero(table.usual & is_topic_record(table.type, table.version))
    names = topic_shape(table.views, table.body[at], table.end[at])
    rows = np.flatnonzero(names.usual)
    ids = uuid_texts(table.views.uuids(names.stop[rows])).view(f"S{UUID_TEXT}").reshape(-1)
    form = b'{"name":"%b","topicId":"%b"}' if style == "json" else b'name="%b" topicId="%b"'
    columns = (at[rows], names.start[rows] + table.origin, names.stop[rows] + table.origin, ids)
    for index, start, stop, topic_id in zip(*(column.tolist() for column in columns), strict=True):
        name = segment[start:stop]
        if is_legal_name(name):
            yield index, (form % (name, topic_id)).decode("ascii")


def _configs(table: RecordTable, segment: bytes, style: FieldStyle) -> Iterator[tuple[int, str]]:
    """Yields the index and the fields of each ConfigRecord of the usual shape, its value blanked."""
    at = np.flatnonzero(table.usual & is_config_record(table.type, table.version))
    shape = config_shape(table.views, table.body[at], table.end[at])
    rows = np.flatnonzero(shape.usual)
    types = table.views.bytes[table.body[at[rows]]].view(np.int8)
    form = _CONFIG_JSON if style == "json" else _CONFIG_TEXT
    starts = (table.body[at[rows]], shape.start[rows], shape.stop[rows])
    columns: list[Any] = [at[rows], types, *(each + table.origin for each in starts)]
    for index, type_, body, start, stop in zip(*(column.tolist() for column in columns), strict=True):
        second = body + 1 + segment[body + 1]
        resource, name = segment[body + 2 : second], segment[second + 1 : second + segment[second]]
        # Names of 127 bytes or more have a length of two bytes.
        is_short = segment[body + 1] < 0x80 and segment[second] < 0x80
        if is_short and is_legal_name(resource) and is_legal_name(name) and segment[start:stop].isascii():
            value = b'"%b"' % BLANK.encode() if stop > start else b'""' if segment[start - 1] else b"null"
            yield index, (form % (type_, resource, name, value)).decode("ascii")
