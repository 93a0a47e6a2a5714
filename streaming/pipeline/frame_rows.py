"""Converts the step's data frames to decoded rows.

Most frames hold a few events of one quiet cluster. So a column is read only if it is needed, and pandas neither sorts
nor groups: for a frame of five rows both take longer than everything else that the step does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd

from connectors.event import Event, from_json
from connectors.event_columns import PARTITION_CHANGED, PARTITION_SET, EventRow, events_from_columns
from connectors.log_event import Undecodable
from rules.model.identifiers import Millis
from streaming.replay.cluster_monitor import DecodedRow
from streaming.replay.failure_reason import failure_reason

_USUAL = ("sequence", "ordinal", "observed_at_ms", "type", "body")
"""The columns of an event that is stored as JSON."""
_PARTITION_EVENTS = frozenset((PARTITION_SET, PARTITION_CHANGED))


def decoded_rows(frames: Iterable[pd.DataFrame]) -> Iterator[DecodedRow]:
    """Yields one DecodedRow for each observation, in journal order: Spark guarantees no order.

    Args:
        frames: events of one cluster, with the columns of `schema.EVENT`.
    """
    parts = list(frames)
    columns = {name: _column(parts, name) for name in _USUAL}
    if not _PARTITION_EVENTS.isdisjoint(columns["type"]):
        columns |= {name: _column(parts, name) for name in EventRow._fields if name not in columns}
    columns = _ordered(columns)
    sequences = columns["sequence"]
    starts = [index for index in range(len(sequences)) if index == 0 or sequences[index] != sequences[index - 1]]
    for start, end in pairwise([*starts, len(sequences)]):
        try:
            events = _events(columns, start, end)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - one row's columns must not end the query for all clusters
            events = (Undecodable(offset=None, reason=f"its events cannot be read: {failure_reason(error)}", length=0),)
        yield DecodedRow(int(sequences[start]), Millis(int(columns["observed_at_ms"][start])), events)


def _column(frames: Sequence[pd.DataFrame], name: str) -> list[Any]:
    return [value for frame in frames for value in frame[name].tolist()]


def _ordered(columns: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Returns the columns in the order of sequence and ordinal."""
    position = list(zip(columns["sequence"], columns["ordinal"], strict=True))
    order = sorted(range(len(position)), key=position.__getitem__)
    if order == list(range(len(order))):
        return dict(columns)
    return {name: [values[index] for index in order] for name, values in columns.items()}


def _events(columns: Mapping[str, list[Any]], start: int, end: int) -> tuple[Event, ...]:
    if _PARTITION_EVENTS.isdisjoint(columns["type"][start:end]):
        return tuple(from_json(bytes(body)) for body in columns["body"][start:end])
    return tuple(events_from_columns({name: columns[name][start:end] for name in EventRow._fields}))
