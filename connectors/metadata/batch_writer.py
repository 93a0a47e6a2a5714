"""Writes record batches (magic 2) of the metadata log, in the layout of Kafka's `DefaultRecordBatch`."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from struct import Struct
from typing import Any, Final, NamedTuple

from connectors.metadata.batches import FRAME, HEADER, MAGIC, write_crc
from connectors.metadata.field_writers import field_writer, signed_varint
from connectors.metadata.record_schemas import record_schemas

_CONTROL: Final = 0x20
_NO_PRODUCER: Final = -1
_EPOCH_AT: Final = 12
_CONTROL_KEY: Final = Struct(">hh")
_BASE_OFFSET: Final = Struct(">q")
_EPOCH: Final = Struct(">i")


class ControlRecordType(IntEnum):
    """The control records of a snapshot (`ControlRecordType`)."""

    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    VOTERS = 6


class RecordContent(NamedTuple):
    """One record to write: key (None for metadata records) and value."""

    key: bytes | None
    value: bytes


def control_record(type_: ControlRecordType, values: Mapping[str, Any]) -> RecordContent:
    """Returns a control record in version 0, the only one.

    Args:
        type_: its type.
        values: its fields by name, as the schema's reader returns them.
    """
    write = field_writer(record_schemas().control[type_].versions[0])
    return RecordContent(_CONTROL_KEY.pack(0, type_), write(values))


def write_batch(
    records: Sequence[RecordContent], *, base_offset: int, leader_epoch: int, timestamp_ms: int, control: bool
) -> bytes:
    """Returns a batch of these records, uncompressed, with a valid CRC.

    Args:
        records: at least one.
        base_offset: the first record's offset.
        leader_epoch: the epoch of the batch.
        timestamp_ms: the timestamp of all records.
        control: whether they are control records.
    """
    body = b"".join(_record(record, delta) for delta, record in enumerate(records))
    last = len(records) - 1
    header = HEADER.pack(
        base_offset,
        HEADER.size - FRAME + len(body),
        leader_epoch,
        MAGIC,
        0,
        _CONTROL if control else 0,
        last,
        timestamp_ms,
        timestamp_ms,
        _NO_PRODUCER,
        _NO_PRODUCER,
        _NO_PRODUCER,
        len(records),
    )
    batch = bytearray(header + body)
    write_crc(batch)
    return bytes(batch)


def with_position(batch: bytes, *, base_offset: int, leader_epoch: int) -> bytes:
    """Returns a copy of a whole batch at another offset and epoch; the CRC covers neither, so it stays valid."""
    changed = bytearray(batch)
    _BASE_OFFSET.pack_into(changed, 0, base_offset)
    _EPOCH.pack_into(changed, _EPOCH_AT, leader_epoch)
    return bytes(changed)


def _record(record: RecordContent, delta: int) -> bytes:
    key = signed_varint(-1) if record.key is None else signed_varint(len(record.key)) + record.key
    # No attributes, the batch's timestamp, the offset delta; no headers after the value.
    content = b"\0\0" + signed_varint(delta) + key + signed_varint(len(record.value)) + record.value + b"\0"
    return signed_varint(len(content)) + content
