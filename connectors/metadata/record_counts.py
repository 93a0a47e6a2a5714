"""Counts the records of a file without rendering them: those of the shape that Kafka writes are counted by column.

What is counted is what `dump_log` could read. All other records are the DumpedRecords of `dump_log`.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from connectors.event_block import Flags
from connectors.metadata.batches import MOST_BYTES, RecordBatch
from connectors.metadata.dump_log import (
    DumpedRecord,
    DumpEntry,
    DumpGap,
    DumpProgress,
    dump_record,
    readable_batches,
)
from connectors.metadata.log_summary import RecordCounts
from connectors.metadata.name_shape import are_ascii, config_shape, is_config_record, is_topic_record, topic_shape
from connectors.metadata.partition_fast_path import PARTITION, PARTITION_CHANGE
from connectors.metadata.partition_layout import uniform_partitions
from connectors.metadata.partition_shape import is_partition_record, partition_shape
from connectors.metadata.record_framing import framed_record, framed_records
from connectors.metadata.record_table import RecordTable, record_table

_NOOP: Final = 20
_NAMES: Final = {
    2: "TOPIC_RECORD",
    PARTITION: "PARTITION_RECORD",
    4: "CONFIG_RECORD",
    PARTITION_CHANGE: "PARTITION_CHANGE_RECORD",
    _NOOP: "NO_OP_RECORD",
}


def count_records(segment: bytes) -> Iterator[DumpEntry | RecordCounts]:
    """Yields counts of most records of a file; every other record, gap and, now and then, a DumpProgress.

    The first and the last record of the file are in the first and the last of what is yielded, or are it.
    """
    run: list[RecordBatch] = []
    for batch in readable_batches(segment):
        is_metadata = not isinstance(batch, DumpGap) and not batch.is_control
        if run and (not is_metadata or run[-1].end - run[0].position >= MOST_BYTES):
            yield from _run_entries(segment, run)
            run = []
        if isinstance(batch, DumpGap):
            yield batch
        elif batch.is_control:
            yield from _batch_entries(segment, batch)
        else:
            run.append(batch)
    if run:
        yield from _run_entries(segment, run)


def _batch_entries(segment: bytes, batch: RecordBatch) -> Iterator[DumpedRecord]:
    for record in framed_records(segment, batch):
        yield dump_record(segment, batch, record, None, secrets=False)


def _run_entries(segment: bytes, run: Sequence[RecordBatch]) -> Iterator[DumpEntry | RecordCounts]:
    """Yields the records of batches that are not control batches."""
    table = record_table(segment, run)
    readable = _readable(table)
    types = np.bincount(table.type[readable], minlength=1)
    counts = {_NAMES[number]: int(types[number]) for number in np.flatnonzero(types).tolist()}
    first, last = run[0], run[-1]
    yield RecordCounts(counts=counts, offset=first.base_offset, epoch=first.leader_epoch)
    unusual = [*table.unusual_batches]
    for index in np.flatnonzero(~readable).tolist():
        while unusual and unusual[0][0] <= index:
            yield from _batch_entries(segment, run[unusual.pop(0)[1]])
        batch = run[int(table.batch[index])]
        position = int(table.start[index]) + table.origin
        record = framed_record(segment, position, batch, int(table.delta[index]))
        yield dump_record(segment, batch, record, None, secrets=False)
    for _, which in unusual:
        yield from _batch_entries(segment, run[which])
    if not table.unusual_batches or table.unusual_batches[-1][1] < len(run) - 1:
        yield RecordCounts(counts={}, offset=last.last_offset, epoch=last.leader_epoch)
    yield DumpProgress(position=last.end)


def _readable(table: RecordTable) -> Flags:
    """Returns which records are certainly read completely by their schema."""
    octets = table.views.bytes
    noops = table.usual & (table.type == _NOOP) & (table.version == 0)
    readable: Flags = noops & (table.body + 1 == table.end) & (octets[table.body] == 0)
    at = np.flatnonzero(table.usual & is_topic_record(table.type, table.version))
    names = topic_shape(table.views, table.body[at], table.end[at])
    readable[at[names.usual]] = are_ascii(table.views, names.start[names.usual], names.stop[names.usual])
    at = np.flatnonzero(table.usual & is_config_record(table.type, table.version))
    at = at[config_shape(table.views, table.body[at], table.end[at]).usual]
    # Behind the resource type, which is one byte.
    readable[at] = are_ascii(table.views, table.body[at] + 1, table.end[at])
    at = np.flatnonzero(table.usual & is_partition_record(table.type, table.version))
    type_, version, body, end = table.type[at], table.version[at], table.body[at], table.end[at]
    _, others = uniform_partitions(table.views, type_, version, body, end)
    shape = partition_shape(table.views, type_[others], version[others], body[others], end[others])
    readable[at] = True
    readable[at[others]] = shape.usual
    return readable
