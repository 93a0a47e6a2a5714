"""Packed events: the events of one observation as one binary value, the form in which they pass Spark's shuffle.

Spark converts each column of each group to pandas on its own, which takes 60 us of CPU time however few rows there are:
with the 22 columns of `schema.EVENT` longer than everything else that is done for a quiet cluster.

A value is a header of 21 bytes (form, sequence, time, ordinal of the first event), then by form: each event as JSON,
after its length; or an Arrow stream of the columns of `EventColumns`, if there are events of partitions. The values are
never stored. One observation may become several values, so that none is large.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import compute
from pyspark.sql.pandas.types import to_arrow_schema

from connectors.event import from_json
from connectors.event_columns import COLUMNS, PARTITION_CHANGED, PARTITION_SET
from rules.model.identifiers import Millis
from streaming.pipeline.event_arrow import observed_events
from streaming.pipeline.schema import PACKED
from streaming.replay.observed_events import ObservedEvent

EVENTS_PER_VALUE = 4_096
"""Most events in one value: Java copies a value several times, and has little memory."""
_HEADER = struct.Struct(">BqqI")
HEADER = _HEADER.size
"""Bytes before the events of a value."""
_LENGTH = struct.Struct(">I")
_JSON, _ARROW = 0, 1
PACKED_ARROW = to_arrow_schema(PACKED)
_PARTITION_TYPES = pa.array([PARTITION_SET, PARTITION_CHANGED])

Batches: TypeAlias = Iterator[pa.RecordBatch]


class EventPacker:
    """`mapInArrow`: what a decoder yields, packed."""

    def __init__(self, decode: Callable[[Batches], Batches]) -> None:
        """`decode` yields batches of `schema.EVENT`."""
        self._decode = decode

    def __call__(self, batches: Batches) -> Batches:
        """Yields batches of `schema.PACKED`."""
        for events in self._decode(batches):
            if events.num_rows:
                yield pack(events)


def pack(events: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch of `schema.PACKED` for a batch of `schema.EVENT`, with at least one value an observation."""
    sequences = events.column("sequence").to_numpy(zero_copy_only=False)
    clusters = events.column("cluster").dictionary_encode().indices.to_numpy(zero_copy_only=False)
    of_partitions = compute.is_in(events.column("type"), value_set=_PARTITION_TYPES).to_numpy(zero_copy_only=False)
    begins = np.flatnonzero((np.diff(sequences) != 0) | (np.diff(clusters) != 0)) + 1
    edges = [
        piece
        for start, end in pairwise((0, *begins.tolist(), len(sequences)))
        for piece in range(start, end, EVENTS_PER_VALUE)
    ]
    numbers = [
        events.column(name).to_numpy(zero_copy_only=False)[edges].tolist()
        for name in ("sequence", "observed_at_ms", "ordinal")
    ]
    bodies = events.column("body")
    values: list[bytes] = []
    for start, end, *header in zip(edges, (*edges[1:], len(sequences)), *numbers, strict=True):
        if of_partitions[start:end].any():
            values.append(_HEADER.pack(_ARROW, *header) + _arrow_stream(events.slice(start, end - start)))
        else:
            each = (body or b"" for body in bodies[start:end].to_pylist())
            values.append(_HEADER.pack(_JSON, *header) + b"".join(_LENGTH.pack(len(body)) + body for body in each))
    keys = [events.column(name).take(pa.array(edges)) for name in ("cluster", "shard")]
    return pa.RecordBatch.from_arrays([*keys, pa.array(values, type=pa.binary())], schema=PACKED_ARROW)


def _arrow_stream(events: pa.RecordBatch) -> bytes:
    columns = events.select(list(COLUMNS))
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, columns.schema) as writer:
        writer.write_batch(columns)
    content: bytes = out.getvalue().to_pybytes()
    return content


class PackedEvents(NamedTuple):
    """One value, of which only the header is unpacked."""

    sequence: int
    ordinal: int
    """Of its first event: it orders the values of one observation."""
    observed_at_ms: Millis
    form: int
    value: bytes

    @classmethod
    def of(cls, value: bytes) -> "PackedEvents":
        """Reads the header."""
        form, sequence, observed_at_ms, ordinal = _HEADER.unpack_from(value)
        return cls(sequence, ordinal, Millis(observed_at_ms), form, value)

    def events(self) -> Iterable[ObservedEvent]:
        """Yields the events, in order; many partition events together, as a block.

        Raises:
            pydantic.ValidationError: one is no event (a ValueError).
        """
        if self.form == _ARROW:
            with pa.ipc.open_stream(pa.py_buffer(self.value).slice(HEADER)) as stream:
                for batch in stream:
                    yield from observed_events(batch)
            return
        position = HEADER
        while position < len(self.value):
            (length,) = _LENGTH.unpack_from(self.value, position)
            position += _LENGTH.size + length
            yield from_json(self.value[position - length : position])
