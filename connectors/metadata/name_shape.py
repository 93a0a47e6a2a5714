"""TopicRecord and ConfigRecord as numpy arrays: which have the shape that Kafka writes, and where their strings are.

After partition records they are the most frequent records of a snapshot.
"""

import string
from dataclasses import dataclass
from typing import Final

import numpy as np

from connectors.event_block import Flags, Octets, Positions
from connectors.metadata.byte_views import ByteViews, Cursor
from connectors.metadata.value_limits import LARGEST_STRING

TOPIC: Final = 2
CONFIG: Final = 4
_UUID_SIZE: Final = 16
_WORD_SIZE: Final = 8
_HIGHEST_BITS: Final = np.uint64(0x8080808080808080)
_SHORT_TEXT: Final = 64
"""Bytes of a text that are looked at by words; the rest of a longer one is looked at as text."""
_LEGAL_CHARACTERS: Final = (string.ascii_letters + string.digits + "._-").encode()
_LEGAL_OCTETS: Final[Flags] = np.isin(np.arange(256), np.frombuffer(_LEGAL_CHARACTERS, np.uint8))


@dataclass(frozen=True, slots=True, kw_only=True)
class NameShape:
    """Records of any shape; each array has one element for each record."""

    usual: Flags
    """Whether the record has the usual shape. Its strings can still be invalid UTF-8."""
    start: Positions
    """Where the content of a topic's name or of a configuration's value begins."""
    stop: Positions
    """Where it ends; equal to `start` if the value is null."""


def is_legal_name(name: bytes) -> bool:
    """Returns whether Kafka allows the name for a topic. JSON escapes no character of such a name."""
    return bool(name) and not name.translate(None, _LEGAL_CHARACTERS)


def are_legal_names(views: ByteViews, start: Positions, stop: Positions) -> Flags | slice:
    """Returns for which of these names `is_legal_name` is true: the slice of all if it is for all."""
    length = stop - start
    legal = _LEGAL_OCTETS[views.spans(start, stop)]
    if legal.all() and length.all():
        return slice(None)
    found: Flags = length > 0
    found[np.repeat(np.arange(len(start)), length)[~legal]] = False
    return found


def is_topic_record(type_: Octets, version: Octets) -> Flags:
    """Returns which types and versions `topic_shape` reads."""
    found: Flags = (type_ == TOPIC) & (version == 0)
    return found


def is_config_record(type_: Octets, version: Octets) -> Flags:
    """Returns which types and versions `config_shape` reads."""
    found: Flags = (type_ == CONFIG) & (version == 0)
    return found


def topic_shape(views: ByteViews, body: Positions, end: Positions) -> NameShape:
    """Finds the names of TopicRecords. The topic id, 16 bytes, follows the name."""
    cursor = Cursor(views, body, end)
    start, stop = _string(cursor)
    cursor.at = cursor.at + _UUID_SIZE
    cursor.require(cursor.byte() == 0)  # no tagged fields
    return NameShape(usual=cursor.finished(), start=start, stop=stop)


def config_shape(views: ByteViews, body: Positions, end: Positions) -> NameShape:
    """Finds the values of ConfigRecords."""
    cursor = Cursor(views, body, end)
    cursor.byte()  # the resource type
    _string(cursor)
    _string(cursor)
    start, stop = _string(cursor, nullable=True)
    cursor.require(cursor.byte() == 0)
    return NameShape(usual=cursor.finished(), start=start, stop=stop)


def _string(cursor: Cursor, *, nullable: bool = False) -> tuple[Positions, Positions]:
    """Skips a compact string of each body, after which at least one byte must follow; returns start and stop."""
    length, start = cursor.views.uvarints(cursor.at)
    stop = start + np.maximum(length - 1, 0)
    cursor.at = stop
    cursor.require((length > (-1 if nullable else 0)) & (length <= LARGEST_STRING + 1) & (stop < cursor.end))
    return start, stop


def are_ascii(views: ByteViews, start: Positions, stop: Positions) -> Flags:
    """Returns which of the texts from each `start` to each `stop` are ASCII."""
    found: Flags = np.ones(len(start), np.bool_)
    left = stop - start
    for skipped in range(0, _SHORT_TEXT, _WORD_SIZE):
        rows = np.flatnonzero(left > skipped)
        if not rows.size:
            return found
        after = np.maximum(_WORD_SIZE - (left[rows] - skipped), 0).view(np.uint64)
        # The bytes after a text are the highest of its last word.
        found[rows] &= (views.eight[start[rows] + skipped] << 8 * after & _HIGHEST_BITS) == 0
    for row in np.flatnonzero(left > _SHORT_TEXT).tolist():
        found[row] &= views.bytes[start[row] + _SHORT_TEXT : stop[row]].tobytes().isascii()
    return found
