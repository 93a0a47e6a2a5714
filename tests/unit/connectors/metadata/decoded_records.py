"""Records as bytes, and their events."""

from dataclasses import replace
from typing import Any

from connectors.metadata.decoder import decode_records
from connectors.observations.observation import Event
from rules.model.identifiers import Epoch, Millis, Offset
from rules.model.membership import RecordPosition
from tests.unit.connectors.metadata.metadata_bytes import batch
from tests.unit.connectors.metadata.metadata_record_schemas import (
    metadata_value,
    raft_value,
)

AT = RecordPosition(offset=Offset(8), leader_epoch=Epoch(3), timestamp_ms=Millis(1000))


UUID = bytes(range(16))


def one(value: bytes | tuple[bytes, bytes]) -> Event:
    """Returns the event of a record. The log holds it three times: a repeated one is read in another way."""
    payload = batch([value] * 3, base_offset=8, epoch=3, timestamp=1000)
    table = decode_records(payload, base_offset=8, last_offset=10, leader_epoch=3, high_watermark=11)
    *events, _ = table.events()
    offsets = (replace(AT, offset=Offset(8 + number)) for number in range(3))
    assert events == [replace(events[0], at=at) for at in offsets]  # type: ignore[arg-type]
    return events[0]


def metadata(api_key: int, version: int, **given: Any) -> Event:
    return one(metadata_value(api_key, version, **given))


def raft(kind: int, version: int, **given: Any) -> Event:
    return one(raft_value(kind, version, **given))
