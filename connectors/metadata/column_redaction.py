"""Finds with numpy what redaction has to overwrite in many metadata records at a time.

Complete partition and topic records, and the values of configurations, are found by column. All other records go one
by one to `redaction`. What is overwritten is the same.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from connectors.event_block import Flags, Positions
from connectors.metadata.batches import RecordBatch, write_crc
from connectors.metadata.byte_views import indices_of_spans
from connectors.metadata.name_shape import are_ascii, config_shape, is_config_record, is_topic_record, topic_shape
from connectors.metadata.partition_layout import uniform_partitions
from connectors.metadata.partition_shape import is_partition_record, partition_shape
from connectors.metadata.record_framing import FramedRecord, framed_record, framed_records
from connectors.metadata.record_table import RecordTable, record_table

_STAR: Final = ord("*")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEdits:
    """What redaction has to overwrite in batches that follow each other."""

    values: "_ConfigValues"
    by_batch: Mapping[int, Sequence[tuple[int, int, bytes]]]
    """By index of the batch, all that is not a value of `values`: start, end, and the byte to write there."""


def run_edits(
    chunk: bytes,
    batches: Sequence[RecordBatch],
    record_edits: Callable[[FramedRecord], Iterable[tuple[int, int, bytes]]],
) -> RunEdits:
    """Returns what has to be overwritten in batches.

    Args:
        chunk: holds the batches.
        batches: undamaged batches of metadata records, at least one, in the order of the chunk.
        record_edits: returns the edits of one record.
    """
    table = record_table(chunk, batches)
    edits: dict[int, list[tuple[int, int, bytes]]] = defaultdict(list)
    done = _complete(table)
    configs, start, stop = _config_values(table)
    done[configs] = True
    rest = np.flatnonzero(~done)
    columns = (table.batch[rest], table.delta[rest], table.start[rest] + table.origin)
    for index, delta, position in zip(*(column.tolist() for column in columns), strict=True):
        edits[index] += record_edits(framed_record(chunk, position, batches[index], delta))
    for _, index in table.unusual_batches:
        edits[index] = [edit for record in framed_records(chunk, batches[index]) for edit in record_edits(record)]
    values = _ConfigValues(table=table, batch=table.batch[configs], start=start, stop=stop)
    return RunEdits(values=values, by_batch=edits)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ConfigValues:
    """The values of configurations: their batches, and where they begin and end in the table's bytes."""

    table: RecordTable
    batch: Positions
    start: Positions
    stop: Positions

    def overwrite(self, chunk: bytes, out: bytearray | None) -> bytearray | None:
        """Writes stars over the values in `out`, a copy of the chunk, which is made if it is None and has to change."""
        octets, origin = self.table.views.bytes, self.table.origin
        at = indices_of_spans(self.start, self.stop)
        fresh = octets[at] != _STAR
        batches = {*np.repeat(self.batch, self.stop - self.start)[fresh].tolist()}
        if not batches:
            return out
        out = bytearray(chunk) if out is None else out
        np.frombuffer(out, np.uint8)[at + origin] = _STAR
        for index in batches:
            batch = self.table.batches[index]
            write_crc(memoryview(out)[batch.position : batch.end])
        return out


def _complete(table: RecordTable) -> Flags:
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
    complete[at[names.usual]] = are_ascii(table.views, names.start[names.usual], names.stop[names.usual])
    return complete


def _config_values(table: RecordTable) -> tuple[Positions, Positions, Positions]:
    """Returns the configurations in ASCII, and where their values begin and end.

    A string of more than 126 bytes is not among them: the first byte of its length is not ASCII.
    """
    at = np.flatnonzero(table.usual & is_config_record(table.type, table.version))
    shape = config_shape(table.views, table.body[at], table.end[at])
    rows = np.flatnonzero(shape.usual)
    rows = rows[are_ascii(table.views, table.body[at[rows]], table.end[at[rows]])]
    return at[rows], shape.start[rows], shape.stop[rows]
