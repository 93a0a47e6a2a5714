"""Regular expressions that match a record's body only if its schema reads all of it: a fast check for redaction.

Partition records are nearly all records of a log. They hold only numbers and UUIDs, so a regular expression made from
the schema decides whether a body is complete: every field, tagged fields that the schema knows in ascending order, and
nothing after them. It covers the shape in which Kafka writes a record, with short lists; for all others, and for
records with strings, the schema's reader decides.
"""

import re
from typing import Final

from connectors.metadata.record_schemas import FieldType

_SIZES: Final = {
    "boolean": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "unsigned_int32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}
_MOST_ELEMENTS: Final = 31
"""A longer list is left to the reader."""
_ONE_BYTE_VARINT: Final = 0x80


class BodyPattern:
    """Matches the complete bodies of one version of a record."""

    __slots__ = ("_match", "_match_untagged", "_tags")

    def __init__(self, fields: bytes, tags: list[bytes]) -> None:
        self._match_untagged = re.compile(fields + b"\0", re.DOTALL).fullmatch
        self._match = re.compile(b"".join((fields, b"(.)", *tags)), re.DOTALL).fullmatch
        self._tags = len(tags)

    def matches(self, chunk: bytes, start: int, end: int) -> bool:
        """Returns whether the bytes from `start` to `end` are a complete body; False if the reader must decide."""
        if self._match_untagged(chunk, start, end) is not None:
            return True
        found = self._match(chunk, start, end)
        if found is None:
            return False
        # The first group is the number of tagged fields; each one that is present has an empty group.
        count, *present = found.groups()
        return count[0] == self._tags - present.count(None)


def body_pattern(type_: FieldType) -> BodyPattern | None:
    """Returns the pattern of a struct's bodies; None if it has a field that only the reader can check."""
    fields = [_pattern(field.type) for field in type_.fields if field.tag is None]
    tagged = sorted((field.tag, field.type) for field in type_.fields if field.tag is not None)
    tags = [_tagged(tag, of) for tag, of in tagged]
    known = [part for part in fields if part is not None]
    known_tags = [part for part in tags if part is not None]
    if (len(known), len(known_tags)) != (len(fields), len(tags)):
        return None
    return BodyPattern(b"".join(known), known_tags)


def _pattern(type_: FieldType) -> bytes | None:
    if type_.name in _SIZES:
        return b".{%d}" % _SIZES[type_.name]
    lists = _lists(type_)
    return None if lists is None else b"(?:%s)" % b"|".join(content for _, content in lists)


def _tagged(tag: int, type_: FieldType) -> bytes | None:
    """Returns the pattern of one tagged field, which may be absent: tag, size, content."""
    if type_.name in _SIZES:
        contents: list[tuple[int, bytes]] | None = [(_SIZES[type_.name], b".{%d}" % _SIZES[type_.name])]
    else:
        contents = _lists(type_)
    if contents is None or tag >= _ONE_BYTE_VARINT:
        return None
    sized = (_byte(size) + content for size, content in contents if size < _ONE_BYTE_VARINT)
    return b"(?:%s(?:%s)())?" % (_byte(tag), b"|".join(sized))


def _lists(type_: FieldType) -> list[tuple[int, bytes]] | None:
    """Returns size and pattern of each list of up to `_MOST_ELEMENTS` elements; None if it is no list of numbers."""
    if "array" not in type_.name or type_.of is None or type_.of.name not in _SIZES:
        return None
    size = _SIZES[type_.of.name]
    lists = [(1 + size * count, _byte(count + 1) + b".{%d}" % (size * count)) for count in range(_MOST_ELEMENTS + 1)]
    return [(1, _byte(0)), *lists] if "nullable" in type_.name else lists


def _byte(value: int) -> bytes:
    return re.escape(bytes((value,)))
