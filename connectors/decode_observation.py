"""What one observation says: a row of the journal, whatever its kind, as events. Without Spark."""

from pydantic import ValidationError

from connectors.event import Event, from_json
from connectors.event_columns import EventColumns
from connectors.log_event import Undecodable
from connectors.metadata.decoder import decode
from connectors.observation import Observation, ObservationKind
from rules.model.identifiers import Offset


def decode_observation(row: Observation) -> EventColumns:
    """One observation's events, in order. Never raises for what the outside world wrote."""
    match row.kind:
        case ObservationKind.RECORDS | ObservationKind.SNAPSHOT:
            return decode(
                row.payload,
                kind=row.kind.value,
                base_offset=row.base_offset,
                last_offset=row.last_offset,
                leader_epoch=row.leader_epoch,
                high_watermark=row.high_watermark,
            )
        case (
            ObservationKind.QUORUM
            | ObservationKind.PROBE
            | ObservationKind.VIEW
            | ObservationKind.FAILED
            | ObservationKind.AUDIT
        ):
            columns = EventColumns()
            columns.append(_seen(row))
            return columns


def _seen(row: Observation) -> Event:
    """The event that a poll, probe, failed look or audit was recorded as."""
    try:
        return from_json(row.payload)
    except ValidationError as problem:
        offset = None if row.base_offset is None else Offset(row.base_offset)
        return Undecodable(
            offset=offset,
            reason=f"a {row.kind} row is no event: {problem.error_count()} fields are wrong",
            length=len(row.payload),
        )
