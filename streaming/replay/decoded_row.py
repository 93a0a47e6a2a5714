"""DecodedRow: one observation with its events; an observation whose decoding raises has one event, an Undecodable."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from connectors.observations.log_event import Undecodable
from connectors.observations.observation import Observation
from connectors.observations.partition_run import DecodedItem
from rules.model.identifiers import Millis
from streaming.replay.decode_observation import decode_observation
from streaming.replay.failure_reason import failure_reason


class DecodedRow(NamedTuple):
    """One decoded observation: its sequence number, the gatherer's time, and all its events."""

    sequence: int
    observed_at_ms: Millis
    events: Iterable[DecodedItem]


def decoded_row(
    row: Observation, decode: Callable[[Observation], Iterable[DecodedItem]] = decode_observation
) -> DecodedRow:
    """Returns an observation with the events that `decode` returns."""
    events: tuple[DecodedItem, ...]
    try:
        events = tuple(decode(row))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - one row must not end the query for all clusters
        reason = f"the row cannot be decoded: {failure_reason(error)}"
        events = (Undecodable(offset=None, reason=reason, length=len(row.payload)),)
    return DecodedRow(row.sequence, Millis(row.observed_at_ms), events)
