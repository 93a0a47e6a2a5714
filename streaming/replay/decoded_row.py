"""DecodedRow: one observation with its events. Whatever its payload is, decoding raises nothing: it is an Undecodable.

Many partition records may be together in one item, a run.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from pydantic import ValidationError

from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.observations.log_event import Undecodable
from connectors.observations.observation import Observation, ObservationKind, Urgency, from_json
from connectors.observations.partition_run import DecodedEvents, DecodedItem, PartitionRun
from rules.model.identifiers import Millis, Offset
from streaming.replay.contract_violations import failure_reason


class DecodedRow(NamedTuple):
    """One decoded observation: its sequence number, the gatherer's time, and all its events."""

    sequence: int
    observed_at_ms: Millis
    events: Iterable[DecodedItem]
    quiet: bool = False
    """Whether it shows nothing new but that time passes (`Urgency.QUIET`)."""

    @property
    def event_count(self) -> int:
        """The number of events, those of runs included."""
        return sum(_size(item) for item in self.events)

    @property
    def first_offset(self) -> int | None:
        """The offset of the first event that has one."""
        for item in self.events:
            if isinstance(item, PartitionRun):
                return item.first_offset
            at = getattr(item, "at", None)
            offset = getattr(item, "offset", None) if at is None else at.offset
            if isinstance(offset, int):
                return offset
        return None

    def undecodable(self) -> Iterator[tuple[int, Undecodable]]:
        """Yields each Undecodable after its ordinal, the number of events before it."""
        ordinal = 0
        for item in self.events:
            if isinstance(item, Undecodable):
                yield ordinal, item
            ordinal += _size(item)


def decoded_row(row: Observation, decode: Callable[[Observation], Iterable[DecodedItem]] | None = None) -> DecodedRow:
    """Returns an observation with the events that `decode` returns; None: with those of `decode_observation`."""
    events: tuple[DecodedItem, ...]
    try:
        events = tuple((decode or decode_observation)(row))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - one row must not end the query for all clusters
        reason = f"the row cannot be decoded: {failure_reason(error)}"
        events = (Undecodable(offset=None, reason=reason, length=len(row.payload)),)
    quiet = row.urgency is Urgency.QUIET
    return DecodedRow(row.sequence, Millis(row.observed_at_ms), events, quiet=quiet)


def decode_observation(row: Observation) -> DecodedEvents:
    """Returns one observation's events, in order. Never raises for invalid content: it becomes an Undecodable."""
    match row.kind:
        case ObservationKind.RECORDS:
            return decode_records(
                row.payload,
                base_offset=row.base_offset,
                last_offset=row.last_offset,
                leader_epoch=row.leader_epoch,
                high_watermark=row.high_watermark,
            )
        case ObservationKind.SNAPSHOT:
            return decode_snapshot_piece(row.payload, end_offset=row.base_offset or 0, epoch=row.leader_epoch or 0)
        case _:
            return _stored_event(row)


def _stored_event(row: Observation) -> DecodedEvents:
    """Returns the event of a poll, probe or failure."""
    try:
        return DecodedEvents([from_json(row.payload)])
    except ValidationError as problem:
        offset = None if row.base_offset is None else Offset(row.base_offset)
        reason = f"a {row.kind} row is no event: {problem.error_count()} fields are wrong"
        return DecodedEvents([Undecodable(offset=offset, reason=reason, length=len(row.payload))])


def _size(item: DecodedItem) -> int:
    return len(item) if isinstance(item, PartitionRun) else 1
