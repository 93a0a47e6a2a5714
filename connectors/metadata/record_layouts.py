"""RecordLayout, the fast path: one `struct` reads a whole metadata record, its framing included.

Nearly all records of a log have one of few layouts: the same type and version, and strings and lists of the same
lengths. A layout is made from the schema and from the first record that has it. Another record has it if all bytes that
are not values are the same. The schema's own reader reads all other records, and gives the same values.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from connectors.errors import UndecodableError
from connectors.metadata.batch_writer import signed_varint
from connectors.metadata.batches import RecordBatch
from connectors.metadata.field_readers import FIXED
from connectors.metadata.record_framing import FramedRecord, framed_records, value_header
from connectors.metadata.record_schemas import (
    CONFIG_RECORD,
    CREDENTIAL_FIELDS,
    Field,
    FieldType,
    RecordSchema,
    record_schemas,
)

Raw: TypeAlias = tuple[Any, ...]
"""Values of one record: numbers; UUIDs, strings, and lists of numbers or UUIDs as bytes."""
CODES: Final = {name: each.format[1:] for name, each in FIXED.items() if name != "float64"} | {"uuid": "16s"}
"""The types of a fixed size that a layout may have, in the notation of `struct`."""
_SIZES: Final = {name: Struct(">" + code).size for name, code in CODES.items()}
_LISTS: Final = frozenset(("compact_array", "compact_nullable_array"))
_TEXTS: Final = frozenset(("compact_string", "compact_nullable_string"))
_CONTENT: Final = _TEXTS | {"compact_bytes", "compact_nullable_bytes"}
_MOST_BEGINNINGS: Final = 512
"""A log of odd records must not fill the memory."""
_MOST_ALIKE: Final = 16
"""Layouts of records that begin with the same bytes: each of them is tried."""
_ONE_BYTE: Final = 0x80
"""Varints from here on have more than one byte."""


class _UnusualShape(Exception):
    """No layout is made of a record."""


class RecordLayout:
    """Where the fields of some records are, and what is the same in all of them."""

    def __init__(self, schema: RecordSchema, version: int, fields: FieldType, parts: "_Parts") -> None:
        self.schema = schema
        self.version = version
        self.constant = schema.constant or schema.name
        self.fields = fields
        secret = CREDENTIAL_FIELDS.get(schema.name, frozenset())
        self.spans = parts.spans
        """Where the values begin and end, counted from the record's first byte."""
        self.credentials = [span for name, span in parts.spans.items() if name in secret]
        """Where the credentials begin and end."""
        self.index, self.empty = parts.index, parts.empty
        whole = Struct(">" + "".join(parts.formats))
        self.size = whole.size
        """Bytes of the whole record."""
        self.unpack = whole.unpack_from
        self.constants = itemgetter(*parts.constants)
        self.expected: Raw = tuple(parts.constants.values())
        self._count = len(parts.formats)
        self._formats = parts.formats
        names = [field.name for field in fields.fields if field.type.name in _TEXTS and field.name in parts.index]
        self.has_texts = bool(names)
        self.texts = self.picker(names)
        """Returns the strings, as bytes."""
        self.plain_texts = self.picker([name for name in names if name not in secret])
        """Returns the strings that are no credentials, as bytes."""
        self.config = self.picker(("name", "value")) if schema.name == CONFIG_RECORD else None
        """Returns a configuration's name and value, as bytes."""

    def picker(self, names: Sequence[str]) -> Callable[[Raw], Raw]:
        """Returns a function that takes these fields out of the values of a record.

        A field that has no bytes in the record has its default, where an empty list is b"".
        """
        others = tuple(self.default(name) for name in names if name not in self.index)
        following = iter(range(self._count, self._count + len(others)))
        at = [self.index[name] if name in self.index else next(following) for name in names]
        if len(at) < 2:
            return lambda values: tuple((values + others)[index] for index in at)
        pick = itemgetter(*at)
        return (lambda values: pick(values + others)) if others else pick

    def narrowed(self, names: Sequence[str]) -> "NarrowLayout":
        """Returns a layout that unpacks only these fields, at least two; one without bytes in the records is b""."""
        formats, at = "", 0
        order: list[str | None] = []
        for name in sorted(names, key=lambda name: self.spans.get(name, (self.size, self.size))):
            start, end = self.spans.get(name, (self.size, self.size))
            if start > at:
                formats += f"{start - at}s"
                order.append(None)
            formats += self._formats[self.index[name]] if name in self.index else "0s"
            order.append(name)
            at = end
        if self.size > at:
            formats += f"{self.size - at}s"
            order.append(None)
        return NarrowLayout(
            size=self.size,
            format=formats,
            unpack=Struct(">" + formats).unpack_from,
            fields=itemgetter(*map(order.index, names)),
            rest=itemgetter(*(index for index, name in enumerate(order) if name is None)),
        )

    def holds(self, name: str) -> bool:
        """Returns whether a field with a tag is in the records."""
        return name in self.index or name in self.empty

    def default(self, name: str) -> object:
        """Returns the value of a field that has no bytes in the record."""
        value = self.fields.defaults.get(name)
        return b"" if name in self.empty or value == [] else value


class NarrowLayout(NamedTuple):
    """Where some fields of records are. Records of which all other bytes are the same differ in nothing else."""

    size: int
    """Bytes of the whole record."""
    format: str
    unpack: Callable[[bytes, int], Raw]
    fields: Callable[[Raw], Raw]
    """Returns the fields out of the values of a record."""
    rest: Callable[[Raw], object]
    """Returns all other bytes."""


FoundRecord: TypeAlias = tuple[int, int, RecordLayout | None, Any]
"""Where a record begins, its offset delta, its layout and its Raw values; without a layout, its FramedRecord. A plain
tuple, because a snapshot of a large cluster holds a million records."""


class _Parts:
    """The parts of one record in the order of its bytes."""

    def __init__(self) -> None:
        self.formats: list[str] = []
        self.constants: dict[int, bytes] = {}
        self.index: dict[str, int] = {}
        self.empty: list[str] = []
        self.spans: dict[str, tuple[int, int]] = {}
        self.size = 0
        self._constant = b""

    def constant(self, content: bytes) -> None:
        self._constant += content

    def value(self, name: str, code: str, size: int) -> None:
        if not size:
            self.empty.append(name)
            return
        self.end_constant()
        self.index[name] = len(self.formats)
        self.spans[name] = self.size, self.size + size
        self.formats.append(code)
        self.size += size

    def end_constant(self) -> None:
        if self._constant:
            self.constants[len(self.formats)] = self._constant
            self.formats.append(f"{len(self._constant)}s")
            self.size += len(self._constant)
            self._constant = b""


OFFSET_DELTA: Final = ""
"""The name of the offset delta among the values: its varint."""
_DELTA_AT: Final = 1
_layouts: dict[bytes, tuple[RecordLayout, ...]] = {}
"""By the first two bytes of the record, the one that was found last first. Several threads may read records."""


def read_records(
    chunk: bytes, batch: RecordBatch, position: int | None = None, delta: int = 0
) -> Iterator[FoundRecord]:
    """Yields the records of a batch in order, those without a layout as `framed_records` does. Never raises.

    Args:
        position: where the first record that is yielded begins; None: the batch's first record.
    """
    position = batch.body if position is None else position
    end, most = batch.end, 0 if batch.is_control else batch.record_count
    while delta < most:
        beginning = chunk[position : position + 2]
        layouts = _layouts.get(beginning, ())
        for layout in layouts:
            after = position + layout.size
            if after <= end:
                values = layout.unpack(chunk, position)
                if values[_DELTA_AT] == zigzag(delta) and layout.constants(values) == layout.expected:
                    if layout is not layouts[0]:
                        # The next record probably has the same layout.
                        _layouts[beginning] = (layout, *(each for each in layouts if each is not layout))
                    yield position, delta, layout, values
                    position = after
                    break
        else:
            rest = framed_records(chunk, batch, position, delta)
            record = next(rest)
            yield position, delta, None, record
            if record.fault is not None:
                yield from ((each.start, each.delta, None, each) for each in rest)
                return
            _learn(chunk, record)
            position = record.end
        delta += 1
    yield from ((each.start, each.delta, None, each) for each in framed_records(chunk, batch, position, delta))


def is_text(value: bytes) -> bool:
    """Returns whether a string is UTF-8, as all strings of a record must be."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


@lru_cache(maxsize=1 << 17)
def zigzag(delta: int) -> bytes:
    """Returns the varint of an offset delta."""
    return signed_varint(delta)


def _learn(chunk: bytes, record: FramedRecord) -> None:
    """Adds the layout of a record, if one can be made."""
    try:
        layout = _layout(chunk, record)
    except (_UnusualShape, UndecodableError, IndexError):
        return
    if len(_layouts) >= _MOST_BEGINNINGS:
        _layouts.clear()
    beginning = chunk[record.start : record.start + 2]
    _layouts[beginning] = (layout, *_layouts.get(beginning, ())[: _MOST_ALIKE - 1])


def _layout(chunk: bytes, record: FramedRecord) -> RecordLayout:
    if record.key is not None or record.value is None:
        raise _UnusualShape
    start, end = record.value
    api_key, version, body = value_header(chunk, start, end)
    schema = record_schemas().records.get(api_key)
    # A body that fits two schemas is left to the readers.
    if schema is None or len(schema.versions.get(version, ())) != 1:
        raise _UnusualShape
    (fields,) = schema.versions[version]
    delta = record.start
    while chunk[delta] >= _ONE_BYTE:
        delta += 1
    delta += 3
    parts = _Parts()
    parts.constant(chunk[record.start : delta])
    parts.value(OFFSET_DELTA, f"{record.content_start - delta}s", record.content_start - delta)
    # Without a length of the timestamp's delta in between, these are the attributes and a delta of 0.
    if chunk[delta - 2 : delta] != b"\0\0" or chunk[delta : record.content_start] != zigzag(record.delta):
        raise _UnusualShape
    parts.constant(chunk[record.content_start : body])
    _add_body(parts, fields, chunk[body:end])
    parts.constant(chunk[end : record.end])
    parts.end_constant()
    return RecordLayout(schema, version, fields, parts)


def _add_body(parts: _Parts, fields: FieldType, body: bytes) -> None:
    at = 0
    for field in fields.fields:
        if field.tag is None:
            at = _add_field(parts, field, body, at)
    parts.constant(body[at : at + 1])
    count, at, last = body[at], at + 1, -1
    by_tag = {field.tag: field for field in fields.fields if field.tag is not None}
    for _ in range(count):
        tag, size = body[at], body[at + 1]
        if tag not in by_tag or not last < tag < _ONE_BYTE > size:
            raise _UnusualShape
        last, end = tag, at + 2 + size
        parts.constant(body[at : at + 2])
        at = _add_field(parts, by_tag[tag], body, at + 2)
        if at != end:
            raise _UnusualShape
    if at != len(body):
        raise _UnusualShape


def _add_field(parts: _Parts, field: Field, body: bytes, at: int) -> int:
    """Adds the parts of one field; returns the position after it."""
    name = field.type.name
    if name in CODES:
        parts.value(field.name, CODES[name], _SIZES[name])
        return at + _SIZES[name]
    if name in _LISTS and field.type.of is not None and field.type.of.name in CODES:
        element = _SIZES[field.type.of.name]
    elif name in _CONTENT:
        element = 1
    else:
        raise _UnusualShape
    count = body[at]
    if not 0 < count < _ONE_BYTE:
        raise _UnusualShape
    size = (count - 1) * element
    parts.constant(body[at : at + 1])
    parts.value(field.name, f"{size}s", size)
    return at + 1 + size
