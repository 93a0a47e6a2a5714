"""Writers of a record's fields, built from its schema: the inverse of `field_readers`.

Flexible encoding (KIP-482), as Kafka's generated message classes write it. Tagged fields are not written: no record
that is written here has any.
"""

from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final, TypeAlias

from connectors.metadata.record_schemas import FieldType

FieldWriter: TypeAlias = Callable[[Any], bytes]
"""Returns the bytes of a value, which has the form that a reader of the same type returns."""

_ZERO_UUID: Final = bytes(16)
_FIXED: Final = {
    "boolean": Struct(">?"),
    "int8": Struct(">b"),
    "int16": Struct(">h"),
    "uint16": Struct(">H"),
    "int32": Struct(">i"),
    "int64": Struct(">q"),
}


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
            return _FIXED[name].pack


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
