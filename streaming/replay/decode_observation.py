"""Decodes one row of the journal, of any kind, to events. Without Spark."""

from pydantic import ValidationError

from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.observations.event import from_json
from connectors.observations.log_event import Undecodable
from connectors.observations.observation import Observation, ObservationKind
from connectors.observations.partition_run import DecodedEvents
from rules.model.identifiers import Offset


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
    """Returns the event of a poll, probe, failure or audit."""
    try:
        return DecodedEvents([from_json(row.payload)])
    except ValidationError as problem:
        offset = None if row.base_offset is None else Offset(row.base_offset)
        reason = f"a {row.kind} row is no event: {problem.error_count()} fields are wrong"
        return DecodedEvents([Undecodable(offset=offset, reason=reason, length=len(row.payload))])
