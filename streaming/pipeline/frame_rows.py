"""Converts the step's data frames to decoded rows, and output rows to data frames.

pandas neither sorts nor groups nor looks at values: for a few rows each takes longer than the step.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np
import pandas as pd

from connectors.log_event import Undecodable
from streaming.pipeline.output_rows import OutputRow
from streaming.pipeline.packed_events import PackedEvents
from streaming.pipeline.schema import OUTPUT
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


def output_frame(rows: Sequence[OutputRow]) -> pd.DataFrame:
    """Returns rows, at least one, as a data frame with the columns of `schema.OUTPUT`."""
    # From a list of rows, pandas would find the type of each column.
    return pd.DataFrame(np.array(rows, object), columns=OUTPUT.fieldNames())
