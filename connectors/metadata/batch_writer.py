"""Writes record batches (magic 2) of the metadata log, in the layout of Kafka's `DefaultRecordBatch`.

The writers of a record's fields are built from its schema: the inverse of `field_readers`. Flexible encoding (KIP-482),
as Kafka's generated message classes write it. Tagged fields are not written: no record that is written here has any.
"""

from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from connectors.metadata.batches import FRAME, HEADER, MAGIC, write_crc
from connectors.metadata.field_readers import FIXED
from connectors.metadata.record_schemas import FieldType, record_schemas

_CONTROL: Final = 0x20
_NO_PRODUCER: Final = -1
_EPOCH_AT: Final = 12
_CONTROL_KEY: Final = Struct(">hh")
_BASE_OFFSET: Final = Struct(">q")
_EPOCH: Final = Struct(">i")
FieldWriter: TypeAlias = Callable[[Any], bytes]
"""Returns the bytes of a value, which has the form that a reader of the same type returns."""

_ZERO_UUID: Final = bytes(16)


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
    write = field_writer(record_schemas().control[type_].versions[0][0])
    return RecordContent(_CONTROL_KEY.pack(0, type_), write(values))


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


def field_writer(type_: FieldType) -> FieldWriter:
    """Returns a writer of one type.

    Raises:
        KeyError: the type is none that a control record of KRaft has.
    """
    match type_.name:
        case "struct":
            return _struct(type_)
        case "compact_array":
            assert type_.of is not None
            return _array(field_writer(type_.of))
        case "compact_string":
            return _write_string
        case "uuid":
            return _write_uuid
        case name:
            return FIXED[name].pack


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


def _struct(type_: FieldType) -> FieldWriter:
    writers = [(field.name, field_writer(field.type)) for field in type_.fields if field.tag is None]

    def write_struct(values: Mapping[str, Any]) -> bytes:
        return b"".join(writer(values[name]) for name, writer in writers) + b"\0"

    return write_struct


def _array(element: FieldWriter) -> FieldWriter:
    def write_array(values: list[Any]) -> bytes:
        return unsigned_varint(len(values) + 1) + b"".join(element(value) for value in values)

    return write_array


def _write_string(value: str) -> bytes:
    content = value.encode()
    return unsigned_varint(len(content) + 1) + content


def _write_uuid(value: str | None) -> bytes:
    return _ZERO_UUID if value is None else urlsafe_b64decode(value + "==")
