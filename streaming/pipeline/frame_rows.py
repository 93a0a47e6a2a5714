"""Converts the step's data frames to decoded rows. pandas neither sorts nor groups: for a few rows both take long."""

from collections.abc import Iterable, Iterator
from itertools import groupby

import pandas as pd

from connectors.log_event import Undecodable
from streaming.pipeline.packed_events import PackedEvents
from streaming.replay.cluster_monitor import DecodedRow
from streaming.replay.failure_reason import failure_reason
from streaming.replay.observed_events import ObservedEvent


def decoded_rows(frames: Iterable[pd.DataFrame]) -> Iterator[DecodedRow]:
    """Yields one DecodedRow for each observation, in journal order: Spark guarantees no order.

    Args:
        frames: rows of one cluster, with the columns of `schema.PACKED`.
    """
    values = [PackedEvents.of(bytes(value)) for frame in frames for value in frame["events"].tolist()]
    values.sort(key=lambda one: one[:2])
    for sequence, group in groupby(values, key=lambda one: one.sequence):
        parts = list(group)
        try:
            events: tuple[ObservedEvent, ...] = tuple(event for part in parts for event in part.events())
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - one row's events must not end the query for all clusters
            events = (Undecodable(offset=None, reason=f"its events cannot be read: {failure_reason(error)}", length=0),)
        yield DecodedRow(sequence, parts[0].observed_at_ms, events)
