"""Writes record batches (magic 2) of the metadata log, in the layout of Kafka's `DefaultRecordBatch`.

A record's fields are written by its schema: the inverse of `field_readers`. Flexible encoding (KIP-482), as Kafka's
generated message classes write it. Tagged fields are not written: no record that is written here has any.
"""

from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from enum import IntEnum
from struct import Struct
from typing import Any, Final, NamedTuple

from connectors.metadata.batches import FRAME, HEADER, MAGIC, write_crc
from connectors.metadata.field_readers import FIXED
from connectors.metadata.record_schemas import FieldType, record_schemas

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
    """Returns a control record in version 0, the only one."""
    (fields,) = record_schemas().control[type_].versions[0]
    return RecordContent(_CONTROL_KEY.pack(0, type_), _written(fields, values))


def write_batch(
    records: Sequence[RecordContent], *, base_offset: int, leader_epoch: int, timestamp_ms: int, control: bool
) -> bytes:
    """Returns a batch of these records, uncompressed, with a valid CRC."""
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


def _written(type_: FieldType, value: Any) -> bytes:
    """Returns the bytes of a value, which has the form that a reader of the same type returns.

    Raises:
        KeyError: the type is none that a control record of KRaft has.
    """
    match type_.name:
        case "struct":
            return (
                b"".join(_written(field.type, value[field.name]) for field in type_.fields if field.tag is None) + b"\0"
            )
        case "compact_array":
            assert type_.of is not None
            return unsigned_varint(len(value) + 1) + b"".join(_written(type_.of, element) for element in value)
        case "compact_string":
            content: bytes = value.encode()
            return unsigned_varint(len(content) + 1) + content
        case "uuid":
            return bytes(16) if value is None else urlsafe_b64decode(value + "==")
        case name:
            return FIXED[name].pack(value)


def unsigned_varint(value: int) -> bytes:
    """Returns an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed_varint(value: int) -> bytes:
    """Returns a zigzag varint."""
    return unsigned_varint(value << 1 if value >= 0 else (-value << 1) - 1)
