"""Reads a partition table as state blobs of version 4 hold it: pages, and for each page the rows that changed since.

Layout: MAGIC; three numbers (the rows in use, the pages of topics, the pages of rows); each page of topics; each page
of rows; and for each page of rows its changed rows: their number, their indices in the page, the rows, and the
assignments that do not fit as JSON. Each of these parts is a length of four bytes and that many bytes, deflated.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np

from connectors.event_block import Numbers
from streaming.replay.assignment import Assignment
from streaming.replay.partition_row import FREE_ROW, ROW, Rows
from streaming.replay.partition_table import PartitionTable
from streaming.replay.table_codec import read_odd, read_page, read_topics

FORMER_MAGIC: Final = b"kpt1"
_PAGE_ROWS: Final = 4_096
_NUMBERS: Final = struct.Struct(">III")
_LENGTH: Final = struct.Struct(">I")
_INDEX: Final = "<u2"


def former_table(blob: bytes) -> PartitionTable:
    """Returns the table.

    Raises:
        ValueError: the bytes are not such a table.
    """
    end, topic_pages, pages = _NUMBERS.unpack_from(blob, len(FORMER_MAGIC))
    parts = _parts(blob, len(FORMER_MAGIC) + _NUMBERS.size)
    if len(parts) != topic_pages + 2 * pages or end > pages * _PAGE_ROWS:
        raise ValueError(f"{len(parts)} parts of {topic_pages} pages of topics and {pages} pages of rows")
    topics, stored, changes = parts[:topic_pages], parts[topic_pages:][:pages], parts[topic_pages + pages :]
    rows: Rows = np.full(pages * _PAGE_ROWS, np.array(FREE_ROW, ROW))
    odd: dict[int, Assignment] = {}
    for page, (content, newer) in enumerate(zip(stored, changes, strict=True)):
        first = page * _PAGE_ROWS
        of_page = rows[first : first + _PAGE_ROWS]
        odd.update(read_page(zlib.decompress(content), of_page))
        if newer:
            indices, newer_odd = _read_changes(zlib.decompress(newer), of_page)
            for index in indices.tolist():
                odd.pop(first + index, None)
            odd.update(newer_odd)
    numbers = read_topics([zlib.decompress(page) for page in topics])
    # Nothing is encoded yet in the present format.
    numbers.changed.update(range(len(numbers.ids)))
    return PartitionTable.restored(numbers, rows, end, odd)


def _parts(blob: bytes, start: int) -> list[bytes]:
    parts: list[bytes] = []
    while start < len(blob):
        end = start + _LENGTH.size + _LENGTH.unpack_from(blob, start)[0]
        parts.append(blob[start + _LENGTH.size : end])
        start = end
    return parts


def _read_changes(content: bytes, rows: Rows) -> tuple[Numbers, Iterator[tuple[int, Assignment]]]:
    count, at = _LENGTH.unpack_from(content)[0], _LENGTH.size
    indices = np.frombuffer(content, _INDEX, count, at)
    at += indices.nbytes
    rows[indices] = np.frombuffer(content, ROW, count, at)
    return indices.astype(np.int32), read_odd(content[at + count * ROW.itemsize :])
