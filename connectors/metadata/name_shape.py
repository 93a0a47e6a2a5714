"""TopicRecord and ConfigRecord as numpy arrays: which have the shape that Kafka writes, and where their strings are.

After partition records they are the most frequent records of a snapshot.
"""

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from connectors.event_block import Flags, Octets, Positions
from connectors.metadata.byte_views import ByteViews, Cursor
from connectors.metadata.value_limits import LARGEST_STRING

TOPIC: Final = 2
CONFIG: Final = 4
_UUID_SIZE: Final = 16
_LEGAL_CHARACTERS: Final = (string.ascii_letters + string.digits + "._-").encode()
_LEGAL_NAME: Final = re.compile(rb"[A-Za-z0-9._-]+").fullmatch


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
    return _LEGAL_NAME(name) is not None


def are_legal_names(names: Sequence[bytes]) -> bool:
    """Returns whether Kafka allows each name for a topic."""
    return all(names) and not b"".join(names).translate(None, _LEGAL_CHARACTERS)


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
    cursor.require(cursor.at < end)
    cursor.require(cursor.byte() == 0)  # no tagged fields
    return NameShape(usual=cursor.finished(), start=start, stop=stop)


def config_shape(views: ByteViews, body: Positions, end: Positions) -> NameShape:
    """Finds the values of ConfigRecords."""
    cursor = Cursor(views, body, end)
    cursor.byte()  # the resource type
    cursor.require(cursor.at < end)
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


def texts(chunk: bytes, start: Positions, stop: Positions, origin: int) -> list[bytes]:
    """Returns the bytes from each `start` to each `stop`, which count from `origin` in the chunk."""
    positions = zip((start + origin).tolist(), (stop + origin).tolist(), strict=True)
    return [chunk[first:after] for first, after in positions]


def are_ascii(chunk: bytes, start: Positions, stop: Positions, origin: int) -> Flags:
    """Returns which of these texts are ASCII."""
    found = texts(chunk, start, stop, origin)
    if b"".join(found).isascii():
        return np.ones(len(found), np.bool_)
    return np.array([text.isascii() for text in found], np.bool_)
