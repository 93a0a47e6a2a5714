"""PageStore: where the large parts of a stored state are kept, so that the state itself stays small.

A page never changes: its reference is the hash of its content. A state whose pages are elsewhere holds references.
Pages and the sections of a stored state are `deflated`.
"""

import struct
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, Protocol

TABLE_MAGIC: Final = b"kpt1"
"""A table that is stored in parts begins with it."""
REFERENCE_BYTES: Final = 16
_INLINE, _REFERENCE = 0, 1
_HEADER: Final = struct.Struct(">BI")
_FASTEST: Final = 1
_TABLES: Final = ((1 << 9, 9, 1), (1 << 14, 14, 5))
"""The longest content, the bits of its window, and zlib's level of memory for its hash table, shortest first."""


class PageStore(Protocol):
    """Keeps the pages of one cluster's state."""

    def put(self, content: bytes) -> bytes:
        """Keeps a page until no state of the last batches refers to it; returns its reference."""
        ...

    def get(self, reference: bytes) -> bytes:
        """Returns the content of a page.

        Raises:
            MissingPageError: the page is missing or damaged.
        """
        ...


class MissingPageError(ValueError):
    """A page of a stored state is missing or damaged."""


def page_reference(content: bytes) -> bytes:
    """Returns the reference of a page."""
    return blake2b(content, digest_size=REFERENCE_BYTES).digest()


def stored_part(content: bytes, pages: PageStore | None) -> bytes:
    """Returns a part of a stored state: the content, or a reference to the page that holds it."""
    if pages is None:
        return _HEADER.pack(_INLINE, len(content)) + content
    return _HEADER.pack(_REFERENCE, REFERENCE_BYTES) + pages.put(content)


def part_content(part: bytes, pages: PageStore | None) -> bytes:
    """Returns the content of a part.

    Raises:
        MissingPageError: it is a page that is missing or damaged.
    """
    kind, _ = _HEADER.unpack_from(part)
    content = part[_HEADER.size :]
    if kind == _INLINE:
        return content
    if pages is None:
        raise MissingPageError(f"page {content.hex()} is not in the state")
    return pages.get(content)


def split_parts(stored: bytes, start: int) -> list[bytes]:
    """Returns the parts of a stored state from this byte on.

    Raises:
        ValueError: the last part is cut off.
    """
    parts: list[bytes] = []
    while start < len(stored):
        if len(stored) < start + _HEADER.size:
            raise ValueError(f"a part ends after {len(stored) - start} bytes")
        end = start + _HEADER.size + _HEADER.unpack_from(stored, start)[1]
        parts.append(stored[start:end])
        start = end
    return parts


def table_references(stored: bytes) -> Iterator[bytes]:
    """Yields the references in a stored table; an empty one has none.

    Raises:
        ValueError: it is damaged.
    """
    if stored.startswith(TABLE_MAGIC):
        parts = split_parts(stored, len(TABLE_MAGIC))
        yield from (part[_HEADER.size :] for part in parts if part[0] == _REFERENCE)


def deflated(content: bytes) -> bytes:
    """Returns the content as a zlib stream, whose tables are as large as the content needs. Any zlib reads it.

    zlib allocates and clears 270 kB for each stream. For the few kilobytes that a cluster's state has after every
    batch, this takes longer than compressing them.
    """
    for longest, window_bits, memory in _TABLES:
        if len(content) <= longest:
            stream = zlib.compressobj(_FASTEST, zlib.DEFLATED, window_bits, memory)
            return stream.compress(content) + stream.flush()
    return zlib.compress(content, level=_FASTEST)
