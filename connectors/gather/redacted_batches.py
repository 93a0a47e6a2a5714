"""Prepares fetched record batches for the journal: blanks credentials and finds endpoints. Pure, and slow.

The log follower does this in a worker thread: 8 MiB of small records take some seconds.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.metadata.record_framing import is_noop
from connectors.metadata.redaction import redact
from connectors.observations.log_event import ControllerRegistered, VotersReplaced
from connectors.observations.observation import Event, ObservationKind

_REGISTER_CONTROLLER: Final = 27


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedBatches:
    """Whole batches without credentials, and what the gatherer needs to know of them."""

    content: bytes
    has_records: bool
    """Whether there are more than NoOps."""
    endpoints: tuple[VotersReplaced | ControllerRegistered, ...]
    """The newest voter set, and the newest registration of each controller."""


def redacted_batches(batches: bytes, *, kind: ObservationKind) -> RedactedBatches:
    """Returns the batches of the log (RECORDS) or of a snapshot (SNAPSHOT) with blanked credentials."""
    registrations: list[int] = []

    def note_registration(api_key: int, position: int) -> None:
        if api_key == _REGISTER_CONTROLLER:
            registrations.append(position)

    # Redaction changes neither the boundaries of batches nor whether they are damaged.
    items = [*scan(batches)]
    content = redact(batches, rare=note_registration, items=items)
    registrations.sort()
    has_records = False
    newest: dict[object, VotersReplaced | ControllerRegistered] = {}
    for batch in items:
        if isinstance(batch, RecordBatch) and is_noop(content, batch):
            continue
        has_records = True
        if isinstance(batch, RecordBatch) and (batch.is_control or _holds_one(registrations, batch)):
            for event in _rare_events(content[batch.position : batch.end], batch, kind):
                match event:
                    case VotersReplaced():
                        newest["voters"] = event
                    case ControllerRegistered():
                        newest[event.id] = event
                    case _:
                        pass
    return RedactedBatches(content=content, has_records=has_records, endpoints=tuple(newest.values()))


def _holds_one(positions: list[int], batch: RecordBatch) -> bool:
    """Whether one of the positions, which are ascending, is in the batch."""
    at = bisect_left(positions, batch.position)
    return at < len(positions) and positions[at] < batch.end


def _rare_events(content: bytes, batch: RecordBatch, kind: ObservationKind) -> Iterator[Event]:
    """Yields the events of a batch, without the runs of partitions and topics."""
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
    for item in events:
        if item.type != "partition-run":
            yield item
