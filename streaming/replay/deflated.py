"""Deflates the sections of a stored state: a zlib stream whose tables are as large as its content needs.

zlib allocates and clears 270 kB for each stream. For the few kilobytes that a cluster's state has after every batch,
this takes longer than compressing them. Any zlib reads the stream.
"""

import zlib
from typing import Final

_FASTEST: Final = 1
_TABLES: Final = ((1 << 9, 9, 1), (1 << 14, 14, 5))
"""The longest content, the bits of its window, and zlib's level of memory for its hash table, shortest first."""


def deflated(content: bytes) -> bytes:
    """Returns the content as a zlib stream; `zlib.decompress` returns the content."""
    for longest, window_bits, memory in _TABLES:
        if len(content) <= longest:
            stream = zlib.compressobj(_FASTEST, zlib.DEFLATED, window_bits, memory)
            return stream.compress(content) + stream.flush()
    return zlib.compress(content, level=_FASTEST)
