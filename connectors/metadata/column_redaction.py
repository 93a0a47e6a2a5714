"""Finds with numpy what redaction has to overwrite in many metadata records at a time.

Complete partition and topic records, and the values of configurations, are found by column. All other records go one
by one to `redaction`. What is overwritten is the same.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from connectors.event_block import Flags, Positions
from connectors.metadata.batches import RecordBatch
from connectors.metadata.name_shape import are_ascii, config_shape, is_config_record, is_topic_record, topic_shape
from connectors.metadata.partition_layout import uniform_partitions
from connectors.metadata.partition_shape import is_partition_record, partition_shape
from connectors.metadata.record_framing import FramedRecord, framed_record, framed_records
from connectors.metadata.record_table import RecordTable, record_table

_STAR: Final = b"*"


def edits_by_batch(
    chunk: bytes,
    batches: Sequence[RecordBatch],
    record_edits: Callable[[FramedRecord], Iterable[tuple[int, int, bytes]]],
) -> Iterator[tuple[RecordBatch, Iterable[tuple[int, int, bytes]]]]:
    """Yields the batches that have edits, with their edits: start, end, and the byte to write there.

    Args:
        chunk: holds the batches.
        batches: undamaged batches of metadata records, at least one, in the order of the chunk.
        record_edits: returns the edits of one record.
    """
    table = record_table(chunk, batches)
    edits: dict[int, list[tuple[int, int, bytes]]] = defaultdict(list)
    done = _complete(table, chunk)
    configs, starts, stops = _config_values(table, chunk)
    done[configs] = True
    columns = (table.batch[configs], starts + table.origin, stops + table.origin)
    for index, start, stop in zip(*(column.tolist() for column in columns), strict=True):
        edits[index].append((start, stop, _STAR))
    rest = np.flatnonzero(~done)
    columns = (table.batch[rest], table.delta[rest], table.start[rest] + table.origin)
    for index, delta, start in zip(*(column.tolist() for column in columns), strict=True):
        edits[index] += record_edits(framed_record(chunk, start, batches[index], delta))
    for _, index in table.unusual_batches:
        edits[index] += (edit for record in framed_records(chunk, batches[index]) for edit in record_edits(record))
    for index, found in edits.items():
        yield batches[index], found


def _complete(table: RecordTable, chunk: bytes) -> Flags:
    """Returns which records are certainly complete and hold no credentials."""
    complete: Flags = np.zeros(len(table.start), np.bool_)
    at = np.flatnonzero(table.usual & is_partition_record(table.type, table.version))
    type_, version, body, end = table.type[at], table.version[at], table.body[at], table.end[at]
    _, others = uniform_partitions(table.views, type_, version, body, end)
    complete[at] = True
    shape = partition_shape(table.views, type_[others], version[others], body[others], end[others])
    complete[at[others]] = shape.usual
    at = np.flatnonzero(table.usual & is_topic_record(table.type, table.version))
    names = topic_shape(table.views, table.body[at], table.end[at])
    complete[at[names.usual]] = are_ascii(chunk, names.start[names.usual], names.stop[names.usual], table.origin)
    return complete


def _config_values(table: RecordTable, chunk: bytes) -> tuple[Positions, Positions, Positions]:
    """Returns the configurations in ASCII, and where their values begin and end."""
    at = np.flatnonzero(table.usual & is_config_record(table.type, table.version))
    shape = config_shape(table.views, table.body[at], table.end[at])
    rows = np.flatnonzero(shape.usual)
    rows = rows[are_ascii(chunk, table.body[at[rows]], table.end[at[rows]], table.origin)]
    return at[rows], shape.start[rows], shape.stop[rows]
