"""Readers of a record's fields, built from its schema: flexible encoding (KIP-482) including tagged fields.

A reader takes a body and a position and returns the value and the position after it. The zero UUID and null are
returned as None. Readers check everything: invalid values and fields beyond the end of the body raise.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Any, Final, TypeAlias

from connectors.errors import UndecodableError
from connectors.metadata.record_schemas import CREDENTIAL_FIELDS, Field, FieldType, record_schemas
from connectors.metadata.value_limits import LARGEST_BODY, LARGEST_STRING

Values: TypeAlias = dict[str, Any]
"""A struct's fields by name: numbers, strings, bytes, bools, UUIDs as Kafka prints them, lists and structs."""
Span: TypeAlias = tuple[int, int]
"""Start and end of a string's or byte string's content in the body."""
FieldReader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]

_ZERO_UUID: Final = bytes(16)
_UUID_SIZE: Final = 16
_VARINT_BITS: Final = 35
FIXED: Final = {
    "boolean": Struct(">?"),
    "int8": Struct(">b"),
    "int16": Struct(">h"),
    "uint16": Struct(">H"),
    "int32": Struct(">i"),
    "unsigned_int32": Struct(">I"),
    "int64": Struct(">q"),
    "float64": Struct(">d"),
}
"""The types of a fixed size; a UUID is one too."""


def read_body(reader: FieldReader, body: bytes) -> Values:
    """Returns the fields of a body. The reader must consume the body to its last byte.

    Raises:
        UndecodableError: the body does not match the schema; the reason holds none of its values.
    """
    if len(body) > LARGEST_BODY:
        raise UndecodableError(f"has {len(body)} bytes, expected at most {LARGEST_BODY}")
    try:
        values, end = reader(body, 0)
    except (IndexError, StructError):
        raise UndecodableError("ends in the middle of a field") from None
    except UnicodeDecodeError:
        raise UndecodableError("holds a string that is not UTF-8") from None
    if end != len(body):
        raise UndecodableError(f"has {len(body) - end} bytes more than its fields")
    assert isinstance(values, dict)
    return values


def read_fitting(readers: Sequence[FieldReader], body: bytes) -> tuple[int, Values]:
    """Returns the number of the first reader that fits a body to its last byte, and the fields that it reads.

    Raises:
        UndecodableError: none fits; the reason is that of the first.
    """
    problem: UndecodableError | None = None
    for number, reader in enumerate(readers):
        try:
            return number, read_body(reader, body)
        except UndecodableError as error:
            problem = problem or error
    raise problem or UndecodableError("is of an unknown type or version")


def uvarint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Returns an unsigned varint of at most five bytes, and the position after it.

    Raises:
        IndexError: the data ends inside it.
        UndecodableError: it does not end after five bytes.
    """
    value = shift = 0
    while shift < _VARINT_BITS:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise UndecodableError("has a varint of more than five bytes")


def uuid_text(raw: bytes) -> str | None:
    """Returns a UUID as Kafka prints it, 22 characters of URL-safe base64; None for the zero UUID."""
    return None if raw == _ZERO_UUID else urlsafe_b64encode(raw)[:22].decode("ascii")


def field_reader(type_: FieldType, *, spans: frozenset[str] | None = None, hidden: bool = False) -> FieldReader:
    """Returns a reader of one type.

    Args:
        spans: names of a struct's fields whose strings and byte strings are returned as Span instead of values.
            Tagged fields that the schema lacks are then refused: the body is not complete. None: return values only,
            and skip such fields.
        hidden: the type is that of such a field.
    """
    nullable = "nullable" in type_.name
    match type_.name:
        case "struct":
            return _struct(type_, spans)
        case "compact_array" | "compact_nullable_array":
            assert type_.of is not None
            return _array(field_reader(type_.of, spans=spans, hidden=hidden), nullable=nullable)
        case "compact_string" | "compact_nullable_string":
            return _string_or_bytes(_span if hidden else _text, nullable=nullable)
        case "compact_bytes" | "compact_nullable_bytes":
            return _string_or_bytes(_span if hidden else _raw, nullable=nullable)
        case "uuid":
            return _read_uuid
        case name:
            return _fixed(FIXED[name])


@lru_cache(maxsize=1024)
def schema_readers(
    type_: int, version: int, *, control: bool, spans: bool = False, kafka: str | None = None
) -> tuple[FieldReader, ...]:
    """Returns a reader for each schema of a record's version, the newest Kafka's first; none if the record is unknown.

    Args:
        control: `type_` is that of a control record.
        spans: complete bodies are read, and credentials are returned as Span.
        kafka: as in `record_schemas`.
    """
    known = record_schemas(kafka)
    schema = (known.control if control else known.records).get(type_)
    if schema is None:
        return ()
    secret = CREDENTIAL_FIELDS.get(schema.name, frozenset()) if spans else None
    return tuple(field_reader(fields, spans=secret) for fields in schema.versions.get(version, ()))


def _struct(type_: FieldType, spans: frozenset[str] | None) -> FieldReader:
    def reader_of(field: Field) -> FieldReader:
        return field_reader(field.type, spans=spans, hidden=spans is not None and field.name in spans)

    plain = [(field.name, reader_of(field)) for field in type_.fields if field.tag is None]
    tags = {field.tag: (field.name, reader_of(field)) for field in type_.fields if field.tag is not None}
    defaults = dict(type_.defaults)

    def read_struct(body: bytes, position: int) -> tuple[Values, int]:
        values: Values = defaults.copy()
        for name, reader in plain:
            values[name], position = reader(body, position)
        count = body[position]
        if count == 0:
            return values, position + 1
        return values, _tagged(values, tags, body, position, complete=spans is not None)

    return read_struct


def _tagged(
    values: Values, tags: Mapping[int, tuple[str, FieldReader]], body: bytes, position: int, *, complete: bool
) -> int:
    """Reads the tagged fields into `values`; returns the position after them."""
    count, position = uvarint(body, position)
    last = -1
    for _ in range(count):
        tag, position = uvarint(body, position)
        if tag <= last:
            # With a repeated tag, redaction and decoding could read different values.
            raise UndecodableError("has tagged fields out of order")
        last = tag
        size, position = uvarint(body, position)
        end = position + size
        if end > len(body):
            raise UndecodableError("ends in the middle of a tagged field")
        known = tags.get(tag)
        if known is not None:
            name, reader = known
            values[name], at = reader(body, position)
            if at != end:
                raise UndecodableError(f"has {size} bytes in the tagged field {name}, expected {at - position}")
        elif complete:
            raise UndecodableError("has a tagged field that its schema lacks")
        position = end
    return position


def _array(element: FieldReader, *, nullable: bool) -> FieldReader:
    def read_array(body: bytes, position: int) -> tuple[list[Any] | None, int]:
        count, position = uvarint(body, position)
        if count == 0:
            return _null(position, nullable=nullable)
        if count - 1 > len(body) - position:
            raise UndecodableError(f"has an array of {count - 1} elements, more than fit in it")
        values = []
        for _ in range(count - 1):
            value, position = element(body, position)
            values.append(value)
        return values, position

    return read_array


def _string_or_bytes(convert: Callable[[bytes, int, int], Any], *, nullable: bool) -> FieldReader:
    def read_content(body: bytes, position: int) -> tuple[Any, int]:
        length, position = uvarint(body, position)
        if length == 0:
            return _null(position, nullable=nullable)
        end = position + length - 1
        if end > len(body):
            raise UndecodableError("ends in the middle of a string")
        return convert(body, position, end), end

    return read_content


def _null(position: int, *, nullable: bool) -> tuple[None, int]:
    if not nullable:
        raise UndecodableError("has null in a field that is not nullable")
    return None, position


def _text(body: bytes, start: int, end: int) -> str:
    if end - start > LARGEST_STRING:
        raise UndecodableError(f"has a string of {end - start} bytes, expected at most {LARGEST_STRING}")
    return body[start:end].decode("utf-8")


def _raw(body: bytes, start: int, end: int) -> bytes:
    return body[start:end]


def _span(body: bytes, start: int, end: int) -> Span:
    return start, end


def _read_uuid(body: bytes, position: int) -> tuple[str | None, int]:
    end = position + _UUID_SIZE
    if end > len(body):
        raise UndecodableError("ends in the middle of a UUID")
    return uuid_text(body[position:end]), end


def _fixed(struct: Struct) -> FieldReader:
    def read_fixed(body: bytes, position: int) -> tuple[Any, int]:
        return struct.unpack_from(body, position)[0], position + struct.size

    return read_fixed
