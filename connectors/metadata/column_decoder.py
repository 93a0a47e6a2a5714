"""Decodes many metadata records at a time with numpy, by column instead of by record.

Records of the shape that Kafka writes, with values that Kafka writes, are decoded here. All others go one by one to
`record_decoder`, which decodes them or finds the reason why they are undecodable. The events are the same as its own.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from connectors.event_block import EventBlock, Flags, Numbers, Positions, TopicColumns
from connectors.metadata.batches import RecordBatch
from connectors.metadata.byte_views import uuid_texts
from connectors.metadata.name_shape import (
    are_ascii,
    are_legal_names,
    config_shape,
    is_config_record,
    is_topic_record,
    topic_shape,
)
from connectors.metadata.partition_layout import is_partition_record
from connectors.metadata.partition_values import PartitionValues
from connectors.metadata.record_decoder import Rows, decode_batch, decode_record, skipped_prefixes
from connectors.metadata.record_framing import framed_record
from connectors.metadata.record_table import RecordTable, record_table
from connectors.metadata.redaction import BLANK
from rules.model.identifiers import SnapshotId


def decode_batches(payload: bytes, batches: Sequence[RecordBatch], snapshot: SnapshotId | None) -> EventBlock:
    """Returns the events of batches that have a valid CRC and are not control batches.

    Args:
        payload: holds the batches.
        batches: at least one, in the order of the payload.
        snapshot: the snapshot to which the payload belongs; None for the log.
    """
    table = record_table(payload, batches)
    positions = _Positions.of(table)

    at = np.flatnonzero(table.usual & is_partition_record(table.type, table.version))
    values = PartitionValues(table.views, table.type[at], table.version[at], table.body[at], table.end[at])
    at = at[values.valid]
    offset, epoch, timestamp = positions.take(table, at)
    partitions = values.columns(offset=offset, epoch=epoch, timestamp=timestamp)
    decoded = _without_event(table)
    decoded[at] = True
    topic_at, topics = _topics(table, positions)
    decoded[topic_at] = True
    others, before = _other_events(table, payload, np.flatnonzero(~decoded), snapshot)
    own = np.zeros(len(table.start) + 1, np.int64)
    own[at] = own[topic_at] = 1
    # The events of an unusual batch come before the record that follows the batch.
    place = np.cumsum(own + np.bincount(before, minlength=len(own))) - 1
    return EventBlock(
        snapshot=snapshot is not None,
        partitions=partitions,
        partition_at=place[at],
        topics=topics,
        topic_at=place[topic_at],
        others=others,
        other_at=np.arange(len(others)) + (np.cumsum(own) - own)[before],
    )


def _without_event(table: RecordTable) -> Flags:
    """Returns which records no rule needs: those that are skipped, and valid configurations."""
    found: Flags = table.usual & _skipped()[table.type, table.version]
    found &= table.views.bytes[table.end - 1] != BLANK
    at = np.flatnonzero(table.usual & is_config_record(table.type, table.version))
    shape = config_shape(table.views, table.body[at], table.end[at])
    at = at[shape.usual]
    found[at] = are_ascii(table.views, table.body[at], table.end[at])
    return found


def _other_events(
    table: RecordTable, payload: bytes, at: Positions, snapshot: SnapshotId | None
) -> tuple[Rows, Positions]:
    """Returns the events of the records `at` and of the unusual batches, and the number of records before each."""
    rows: Rows = []
    before: list[int] = []
    unusual = [*table.unusual_batches, (len(table.start) + 1, -1)]
    following = 0
    columns = (at, table.batch[at], table.delta[at], table.start[at] + table.origin)
    for index, batch_index, delta, start in zip(*(column.tolist() for column in columns), strict=True):
        while unusual[following][0] <= index:
            count, which = unusual[following]
            decode_batch(payload, table.batches[which], rows, snapshot)
            before += [count] * (len(rows) - len(before))
            following += 1
        batch = table.batches[batch_index]
        decode_record(payload, batch, framed_record(payload, start, batch, delta), rows, snapshot)
        before += [index] * (len(rows) - len(before))
    for count, which in unusual[following:-1]:
        decode_batch(payload, table.batches[which], rows, snapshot)
        before += [count] * (len(rows) - len(before))
    return rows, np.array(before, np.int64)


def _topics(table: RecordTable, positions: "_Positions") -> tuple[Positions, TopicColumns]:
    """Returns the TopicRecords that have the usual shape and a legal name: their indices, and their events."""
    at = np.flatnonzero(table.usual & is_topic_record(table.type, table.version))
    shape = topic_shape(table.views, table.body[at], table.end[at])
    usual = np.flatnonzero(shape.usual)
    ids = table.views.uuids(shape.stop[usual])
    with_id = ids.view(np.int64).any(axis=1)
    usual, ids = usual[with_id], ids[with_id]
    legal = are_legal_names(table.views, shape.start[usual], shape.stop[usual])
    usual, ids = usual[legal], ids[legal]
    at = at[usual]
    offset, epoch, timestamp = positions.take(table, at)
    topics = TopicColumns(
        offset=offset,
        leader_epoch=epoch,
        timestamp_ms=timestamp,
        topic_id=uuid_texts(ids),
        names=table.views.spans(shape.start[usual], shape.stop[usual]).tobytes(),
        name_end=np.cumsum(shape.stop[usual] - shape.start[usual]),
    )
    return at, topics


class _Positions(NamedTuple):
    """Base offset, leader epoch and base timestamp of each batch."""

    offset: Positions
    epoch: Numbers
    timestamp: Positions

    @classmethod
    def of(cls, table: RecordTable) -> "_Positions":
        rows = [(batch.base_offset, batch.leader_epoch, batch.base_timestamp) for batch in table.batches]
        offset, epoch, timestamp = np.array(rows, np.int64).T
        return cls(offset, epoch.astype(np.int32), timestamp)

    def take(self, table: RecordTable, at: Positions) -> tuple[Positions, Numbers, Positions]:
        """Returns offset, leader epoch and timestamp of the records `at`."""
        batch = table.batch[at]
        return self.offset[batch] + table.delta[at], self.epoch[batch], self.timestamp[batch]


@cache
def _skipped() -> Flags:
    """Returns, by type and version, whether no rule needs the record."""
    table: Flags = np.zeros((256, 256), np.bool_)
    for _, type_, version in skipped_prefixes():
        table[type_, version] = True
    return table
