"""Decodes many metadata records at a time with numpy, by column instead of by record.

Records of the shape that Kafka writes, with values that Kafka writes, are decoded here. All others go one by one to
`record_decoder`, which decodes them or finds the reason why they are undecodable. The events are the same as its own.
"""

from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np

from connectors.event_block import UUID_TEXT, EventBlock, Flags, Positions
from connectors.metadata.batches import RecordBatch
from connectors.metadata.byte_views import uuid_texts
from connectors.metadata.name_shape import config_shape, is_config_record, is_legal_name, is_topic_record, topic_shape
from connectors.metadata.partition_shape import (
    is_partition_record,
    partition_columns,
    partition_shape,
    valid_partitions,
)
from connectors.metadata.record_decoder import Rows, SnapshotIdentity, decode_batch, decode_record, skipped_prefixes
from connectors.metadata.record_framing import framed_record
from connectors.metadata.record_table import RecordTable, record_table
from connectors.metadata.redaction import BLANK

_TOPIC_CREATED: Final = (
    b'{"at":{"offset":%d,"leader_epoch":%d,"timestamp_ms":%d,"snapshot":%b},"topic_id":"%b","name":"%b",'
    b'"type":"topic-created"}'
)
"""What `connectors.event.to_json` returns for a TopicCreated."""
_NO_COLUMNS: Final = (None,) * 11
"""The fields of EventRow between `snapshot` and `body`."""


def decode_batches(payload: bytes, batches: Sequence[RecordBatch], snapshot: SnapshotIdentity | None) -> EventBlock:
    """Returns the events of batches that have a valid CRC and are not control batches.

    Args:
        payload: holds the batches.
        batches: at least one, in the order of the payload.
        snapshot: the snapshot to which the payload belongs; None for the log.
    """
    table = record_table(payload, batches)
    epochs = np.array([batch.leader_epoch for batch in batches], np.int32)[table.batch]
    timestamps = np.array([batch.base_timestamp for batch in batches], np.int64)[table.batch]
    offsets = np.array([batch.base_offset for batch in batches], np.int64)[table.batch] + table.delta

    at = np.flatnonzero(table.usual & is_partition_record(table.type, table.version))
    shape = partition_shape(table.views, table.type[at], table.version[at], table.body[at], table.end[at])
    valid = np.flatnonzero(valid_partitions(shape, table.views))
    at = at[valid]
    partitions = partition_columns(
        shape, table.views, valid, offset=offsets[at], epoch=epochs[at], timestamp=timestamps[at]
    )
    decoded = _without_event(table, payload)
    decoded[at] = True
    others, before = _other_events(table, payload, np.flatnonzero(~decoded), snapshot)
    return EventBlock(
        snapshot=snapshot is not None,
        partitions=partitions,
        # The events of an unusual batch come before the record that follows the batch.
        partition_at=np.arange(len(at)) + np.searchsorted(before, at, "right"),
        others=others,
        other_at=np.arange(len(others)) + np.searchsorted(at, before, "left"),
    )


def _without_event(table: RecordTable, payload: bytes) -> Flags:
    """Returns which records no rule needs: those that are skipped, and valid configurations."""
    found: Flags = table.usual & _skipped()[table.type, table.version]
    found &= table.views.bytes[table.end - 1] != BLANK
    at = np.flatnonzero(table.usual & is_config_record(table.type, table.version))
    shape = config_shape(table.views, table.body[at], table.end[at])
    for index in at[shape.usual].tolist():
        start, end = table.origin + table.body[index], table.origin + table.end[index]
        found[index] = payload[start:end].isascii()
    return found


def _other_events(
    table: RecordTable, payload: bytes, at: Positions, snapshot: SnapshotIdentity | None
) -> tuple[Rows, Positions]:
    """Returns the events of the records `at` and of the unusual batches, and the number of records before each."""
    rows: Rows = []
    before: list[int] = []
    topics = _topics(table, payload, at, snapshot)
    unusual = [*table.unusual_batches, (len(table.start) + 1, -1)]
    following = 0
    columns = (at, table.batch[at], table.delta[at], table.start[at] + table.origin)
    for index, batch_index, delta, start in zip(*(column.tolist() for column in columns), strict=True):
        while unusual[following][0] <= index:
            count, which = unusual[following]
            decode_batch(payload, table.batches[which], rows, snapshot)
            before += [count] * (len(rows) - len(before))
            following += 1
        row = topics.get(index)
        if row is not None:
            rows.append(row)
        else:
            batch = table.batches[batch_index]
            decode_record(payload, batch, framed_record(payload, start, batch, delta), rows, snapshot)
        before += [index] * (len(rows) - len(before))
    for count, which in unusual[following:-1]:
        decode_batch(payload, table.batches[which], rows, snapshot)
        before += [count] * (len(rows) - len(before))
    return rows, np.array(before, np.int64)


def _topics(
    table: RecordTable, payload: bytes, at: Positions, snapshot: SnapshotIdentity | None
) -> dict[int, tuple[object, ...]]:
    """Returns the events of the TopicRecords among `at` that have the usual shape and a legal name."""
    at = at[(table.usual & is_topic_record(table.type, table.version))[at]]
    shape = topic_shape(table.views, table.body[at], table.end[at])
    usual = np.flatnonzero(shape.usual)
    ids = table.views.uuids(shape.stop[usual])
    with_id = ids.view(np.int64).any(axis=1)
    texts = uuid_texts(ids[with_id]).view(f"S{UUID_TEXT}").reshape(-1)
    usual = usual[with_id]
    at = at[usual]
    columns = (at, table.batch[at], table.delta[at], shape.start[usual], shape.stop[usual], texts)
    in_snapshot, snapshot_text = snapshot is not None, b"false" if snapshot is None else b"true"
    found: dict[int, tuple[object, ...]] = {}
    for index, batch_index, delta, start, stop, topic_id in zip(*(each.tolist() for each in columns), strict=True):
        name = payload[table.origin + start : table.origin + stop]
        if is_legal_name(name):
            batch = table.batches[batch_index]
            position = (batch.base_offset + delta, batch.leader_epoch, batch.base_timestamp)
            body = _TOPIC_CREATED % (*position, snapshot_text, topic_id, name)
            found[index] = ("topic-created", *position, in_snapshot, *_NO_COLUMNS, body)
    return found


@cache
def _skipped() -> Flags:
    """Returns, by type and version, whether no rule needs the record."""
    table: Flags = np.zeros((256, 256), np.bool_)
    for _, type_, version in skipped_prefixes():
        table[type_, version] = True
    return table
