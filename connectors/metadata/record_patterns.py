"""RecordPattern, the fast path: divides a metadata record into parts, most of which are the same in many records.

Numbers and UUIDs, which differ from record to record, are parts by themselves; what is between them, and the rest with
the tagged fields, are parts too. They are read by the schema's own readers, but only once for the same bytes. A record
that has no pattern is left to the caller, as is one with a part that the schema does not allow.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from connectors.errors import UndecodableError
from connectors.metadata.batch_writer import signed_varint
from connectors.metadata.batches import RecordBatch
from connectors.metadata.field_readers import FIXED, Values, field_reader, read_body
from connectors.metadata.record_framing import FRAME_VERSION, framed_records, varint
from connectors.metadata.record_schemas import CREDENTIAL_FIELDS, Field, FieldType, RecordSchema, record_schemas
from connectors.metadata.value_limits import LARGEST_BODY, LATEST_TIMESTAMP_MS, NO_TIMESTAMP

Raw: TypeAlias = tuple[bytes, ...]
"""The bytes of a record's parts."""
FoundRecord: TypeAlias = "tuple[int, int, RecordPattern | None, Any]"
"""Where a record begins, its offset delta, its pattern and its Raw parts; without a pattern, its FramedRecord. A plain
tuple, because a snapshot of a large cluster holds a million records."""

_ALONE: Final = frozenset(("int32", "int64", "uuid"))
_SIZES: Final = {name: each.size for name, each in FIXED.items() if name != "float64"} | {"uuid": 16}
"""The types of a fixed size that a pattern may have."""
_CONTENT: Final = frozenset(("compact_string", "compact_nullable_string", "compact_bytes", "compact_nullable_bytes"))
_MOST_ELEMENTS: Final = 15
_LONGEST_CONTENT: Final = 100
_LONGEST_REST: Final = 512
"""Bytes of the last part: odd records must not fill the memory."""
_VARINT: Final = rb"([\x80-\xff]{0,4}[\x00-\x7f])"
_framed: Final = re.compile(
    rb"(?s)%b\x00\x00%b\x01%b%b([\x00-\x7f]{2})" % (_VARINT, _VARINT, _VARINT, bytes((FRAME_VERSION,)))
).match
"""Length, attributes, timestamp delta, offset delta, no key, length of the value, frame version, type and version."""


class Part(NamedTuple):
    """Adjacent fields of a record; the last part has the tagged ones too."""

    fields: tuple[Field, ...]
    defaults: Values
    read: Callable[[bytes], Values]
    """Returns the fields by name.

    Raises:
        UndecodableError: the schema does not allow these bytes.
    """


class RecordPattern:
    """The parts of the records of one type and version."""

    def __init__(self, schema: RecordSchema, version: int, fields: FieldType) -> None:
        """Raises KeyError if a field is a float, a struct or a list of others than numbers and UUIDs."""
        self.schema, self.version, self.fields = schema, version, fields
        self.constant = schema.constant or schema.name
        *inner, last = _divided(fields.fields)
        self.parts = [_part(each, fields, end=b"\0") for each in inner] + [_part(last, fields, end=b"")]
        # A number or UUID by itself may be any bytes.
        self._checked = [at for at, part in enumerate(inner) if part[0].type.name not in _ALONE] + [len(inner)]
        *groups, _ = (b"(%b)" % b"".join(map(_expression, part)) for part in (*inner, last))
        self.match = re.compile(b"(?s)%b(.{1,%d})" % (b"".join(groups), _LONGEST_REST)).fullmatch

    def reads(self, raw: Raw) -> bool:
        """Returns whether the schema allows a record."""
        try:
            for at in self._checked:
                self.parts[at].read(raw[at])
        except UndecodableError:
            return False
        return True


def _divided(fields: Sequence[Field]) -> list[tuple[Field, ...]]:
    """Returns the fields of each part."""
    parts: list[tuple[Field, ...]] = []
    others: list[Field] = []
    for field in (each for each in fields if each.tag is None):
        if field.type.name in _ALONE:
            parts += [tuple(others), (field,)] if others else [(field,)]
            others = []
        else:
            others.append(field)
    return [*parts, (*others, *(each for each in fields if each.tag is not None))]


def _expression(field: Field) -> bytes:
    """Returns the regular expression of a field: an alternative for each length."""
    kind, of = field.type.name, field.type.of
    if of is None and kind not in _CONTENT:
        return b".{%d}" % _SIZES[kind]
    most, size = (_LONGEST_CONTENT, 1) if of is None else (_MOST_ELEMENTS, _SIZES[of.name])
    return b"(?:%b)" % b"|".join(b"\\x%02x.{%d}" % (count + 1, count * size) for count in range(most + 1))


def _part(fields: tuple[Field, ...], of: FieldType, *, end: bytes) -> Part:
    defaults = {field.name: of.defaults[field.name] for field in fields}
    reader = field_reader(FieldType(name="struct", fields=fields, defaults=defaults), spans=frozenset())

    @lru_cache(maxsize=1 << 14)
    def read(raw: bytes) -> Values:
        return read_body(reader, raw + end)

    return Part(fields, defaults, read)


class _Framing(NamedTuple):
    """The bytes before and after an offset delta of this many bytes, and the size of the whole record."""

    before: bytes = b""
    after: bytes = b""
    delta_bytes: int = 0
    size: int = 0
    pattern: RecordPattern | None = None


def read_records(chunk: bytes, batch: RecordBatch) -> Iterator[FoundRecord]:
    """Yields the records of a batch in order, those without a pattern as `framed_records` does. Never raises."""
    position, delta, end = batch.body, 0, batch.end
    # A pattern shows neither control records nor whether the batch's time, which is that of its records, is valid.
    timed = NO_TIMESTAMP <= batch.base_timestamp <= LATEST_TIMESTAMP_MS
    most = batch.record_count if timed and not batch.is_control else 0
    before, after, delta_bytes, size, pattern = _Framing()
    while delta < most:
        encoded, match = _zigzag(delta), None
        if len(encoded) != delta_bytes or not chunk.startswith(before + encoded + after, position):
            # Most records have the framing of the one before.
            before, after, delta_bytes, size, pattern = _framing(chunk, position, encoded)
        end_of_value = position + size - 1
        if pattern is not None and end_of_value < end and not chunk[end_of_value]:
            match = pattern.match(chunk, position + len(before) + delta_bytes + len(after), end_of_value)
        if match is not None:
            yield position, delta, pattern, match.groups()
            position += size
        else:
            rest = framed_records(chunk, batch, position, delta)
            record = next(rest)
            yield position, delta, None, record
            if record.fault is not None:
                yield from ((each.start, each.delta, None, each) for each in rest)
                return
            position = record.end
        delta += 1
    yield from ((each.start, each.delta, None, each) for each in framed_records(chunk, batch, position, delta))


def _framing(chunk: bytes, position: int, encoded: bytes) -> _Framing:
    """Returns the framing of a record with this offset delta; without a pattern if it is unusual."""
    found = _framed(chunk, position)
    if found is None or found[2] != encoded:
        return _Framing()
    length, _, value, type_and_version = found.groups()
    content, without_value = varint(length, 0)[0], 4 + len(encoded) + len(value)
    if content - without_value != varint(value, 0)[0] or content > LARGEST_BODY:
        return _Framing()
    after = b"\1" + value + bytes((FRAME_VERSION,)) + type_and_version
    pattern = _pattern(type_and_version)
    return _Framing(length + b"\0\0", after, len(encoded), len(length) + content, pattern)


@cache
def _pattern(type_and_version: bytes) -> RecordPattern | None:
    type_, version = type_and_version
    schema = record_schemas().records.get(type_)
    # A body that fits two schemas is left to the readers, and so are credentials.
    if schema is None or schema.name in CREDENTIAL_FIELDS or len(schema.versions.get(version, ())) != 1:
        return None
    try:
        return RecordPattern(schema, version, schema.versions[version][0])
    except KeyError:
        return None


@lru_cache(maxsize=1 << 17)
def _zigzag(delta: int) -> bytes:
    return signed_varint(delta)
