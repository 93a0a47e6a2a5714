"""Prepares fetched record batches for the journal: blanks credentials and finds endpoints. Pure, and slow.

The log follower does this in a worker thread: 8 MiB of small records take some seconds.
"""

from dataclasses import dataclass
from typing import Final

from connectors.errors import UndecodableError
from connectors.event import Event
from connectors.log_event import ControllerRegistered, VotersSet
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.metadata.record_framing import framed_records, is_noop, value_header
from connectors.metadata.redaction import redact
from connectors.observation import ObservationKind

_REGISTER_CONTROLLER: Final = 27


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedBatches:
    """Whole batches without credentials, and what the gatherer needs to know of them."""

    content: bytes
    has_records: bool
    """Whether there are more than NoOps."""
    endpoints: tuple[VotersSet | ControllerRegistered, ...]
    """The newest voter set, and the newest registration of each controller."""


def redacted_batches(batches: bytes, *, kind: ObservationKind) -> RedactedBatches:
    """Returns the batches of the log (RECORDS) or of a snapshot (SNAPSHOT) with blanked credentials."""
    content = redact(batches)
    has_records = False
    newest: dict[object, VotersSet | ControllerRegistered] = {}
    for batch in scan(content):
        if isinstance(batch, RecordBatch) and is_noop(content, batch):
            continue
        has_records = True
        if isinstance(batch, RecordBatch) and _may_hold_endpoints(content, batch):
            for event in _events(content[batch.position : batch.end], batch, kind):
                match event:
                    case VotersSet():
                        newest["voters"] = event
                    case ControllerRegistered():
                        newest[event.id] = event
                    case _:
                        pass
    return RedactedBatches(content=content, has_records=has_records, endpoints=tuple(newest.values()))


def _events(content: bytes, batch: RecordBatch, kind: ObservationKind) -> list[Event]:
    if kind is ObservationKind.SNAPSHOT:
        events = decode_snapshot_piece(content, end_offset=batch.base_offset, epoch=batch.leader_epoch)
    else:
        events = decode_records(
            content,
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            leader_epoch=batch.leader_epoch,
            high_watermark=None,
        )
    return list(events.events())


def _may_hold_endpoints(content: bytes, batch: RecordBatch) -> bool:
    """Whether the batch may contain a VotersRecord or a RegisterControllerRecord."""
    if batch.is_control:
        return True
    return any(
        record.value is not None and _type(content, *record.value) == _REGISTER_CONTROLLER
        for record in framed_records(content, batch)
    )


def _type(content: bytes, start: int, end: int) -> int | None:
    try:
        return value_header(content, start, end)[0]
    except UndecodableError:
        return None
