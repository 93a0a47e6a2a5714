"""Converts the step's data frames to observations, and output rows to data frames.

pandas neither sorts nor groups nor looks at values: for a few rows each takes longer than the step.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from connectors.observations.observation import Observation
from streaming.pipeline.output_rows import OutputRow
from streaming.pipeline.packed_observations import unpacked
from streaming.pipeline.schema import OUTPUT


def observations(cluster: str, frames: Iterable[pd.DataFrame]) -> Sequence[Observation]:
    """Returns the observations in journal order: Spark guarantees no order.

    Args:
        cluster: its name.
        frames: rows of this cluster, with the columns of `schema.PACKED`.
    """
    rows = [unpacked(cluster, bytes(value)) for frame in frames for value in frame["observation"].tolist()]
    rows.sort(key=lambda row: row.sequence)
    return rows


def output_frame(rows: Sequence[OutputRow]) -> pd.DataFrame:
    """Returns rows, at least one, as a data frame with the columns of `schema.OUTPUT`."""
    # From a list of rows, pandas would find the type of each column.
    return pd.DataFrame(np.array(rows, object), columns=OUTPUT.fieldNames())
