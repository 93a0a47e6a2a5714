"""Stores a partition table as pages. After a change only the rows that changed are encoded again.

Layout: MAGIC; three numbers (the rows in use, the pages of topics, the pages of rows); each page of topics; each page
of rows; and for each page of rows the rows that changed since it was encoded. Each of these parts is a length of four
bytes (big-endian) and that many bytes. A page that has many changed rows is encoded again: one page, never the table.

All parts are deflated. A page of topics is JSON: ids and names. A page of rows is the number of rows, the columns one
after the other, and the assignments that do not fit into a row as JSON. The changes of a page are the number of rows,
their indices in the page, the rows, and such assignments.
"""

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from connectors.event_block import Numbers
from rules.model.identifiers import TopicId
from streaming.replay.assignment import Assignment
from streaming.replay.partition_row import FREE_ROW, ODD, ROW, Rows
from streaming.replay.partition_table import PartitionTable
from streaming.replay.topic_numbers import TopicNumbers

MAGIC: Final = b"kpt1"
PAGE_ROWS: Final = 4_096
"""A page of rows is 128 KiB before, and usually less than 48 KiB after compression."""
PAGE_TOPICS: Final = 512
MOST_CHANGES: Final = PAGE_ROWS // 8
"""With more changed rows than this a page is encoded again."""
_NUMBERS: Final = struct.Struct(">III")
_LENGTH: Final = struct.Struct(">I")
_INDEX: Final = "<u2"


class StoredTable:
    """A table and its bytes, page by page."""

    def __init__(self, table: PartitionTable) -> None:
        self.table = table
        self._topics: list[bytes] = []
        self._pages: list[bytes] = []
        self._changes: list[bytes] = []
        """For each page its changes since it was encoded; empty if there are none."""
        self._changed: dict[int, Numbers] = {}
        """By page: the changed slots."""

    @classmethod
    def restored(cls, blob: bytes) -> "StoredTable":
        """Returns what `to_bytes` returned.

        Raises:
            ValueError: the bytes are not a stored table.
        """
        end, topic_pages, pages, start = *_NUMBERS.unpack_from(blob, len(MAGIC)), len(MAGIC) + _NUMBERS.size
        parts = _parts(blob, start)
        if len(parts) != topic_pages + 2 * pages or end > pages * PAGE_ROWS:
            raise ValueError(f"{len(parts)} parts of {topic_pages} pages of topics and {pages} pages of rows")
        topics, rows, changes = parts[:topic_pages], parts[topic_pages:][:pages], parts[topic_pages + pages :]
        table, changed = _restored_table(end, topics, rows, changes)
        stored = cls(table)
        stored._topics, stored._pages, stored._changes, stored._changed = topics, rows, changes, changed
        return stored

    def to_bytes(self) -> bytes:
        """Returns the table as it is now."""
        table = self.table
        self._encode_topics()
        changed = table.take_changed()
        known = len(self._pages)
        for page in range(known, -(-table.end // PAGE_ROWS)):
            self._pages.append(b"")
            self._changes.append(b"")
            self._encode_page(page)
        changed = changed[changed < known * PAGE_ROWS]
        numbers, first = np.unique(changed // PAGE_ROWS, return_index=True)
        for page, slots in zip(numbers.tolist(), np.split(changed, first[1:]), strict=False):
            self._add_changes(page, slots)
        parts = (*self._topics, *self._pages, *self._changes)
        header = MAGIC + _NUMBERS.pack(table.end, len(self._topics), len(self._pages))
        return header + b"".join(piece for part in parts for piece in (_LENGTH.pack(len(part)), part))

    def _encode_topics(self) -> None:
        topics = self.table.topics
        pages = {number // PAGE_TOPICS for number in topics.changed}
        self._topics += [b""] * (-(-len(topics.ids) // PAGE_TOPICS) - len(self._topics))
        for page in pages:
            span = slice(page * PAGE_TOPICS, (page + 1) * PAGE_TOPICS)
            document = json.dumps([topics.ids[span], topics.names[span]], separators=(",", ":"))
            self._topics[page] = zlib.compress(document.encode(), level=1)
        topics.changed.clear()

    def _add_changes(self, page: int, slots: Numbers) -> None:
        known = self._changed.get(page)
        if known is not None:
            slots = np.union1d(known, slots).astype(np.int32)
        if len(slots) > MOST_CHANGES:
            self._encode_page(page)
            return
        self._changed[page] = slots
        rows = self.table.rows[slots]
        indices = (slots - page * PAGE_ROWS).astype(_INDEX)
        odd = _odd_json(self.table, slots[rows["flags"] & ODD != 0].tolist())
        content = _LENGTH.pack(len(slots)) + indices.tobytes() + rows.tobytes() + odd
        self._changes[page] = zlib.compress(content, level=1)

    def _encode_page(self, page: int) -> None:
        table, first = self.table, page * PAGE_ROWS
        rows = table.rows[first : min(first + PAGE_ROWS, table.end)]
        odd = _odd_json(table, (np.flatnonzero(rows["flags"] & ODD) + first).tolist())
        columns = b"".join(rows[name].tobytes() for name in ROW.names or ())
        self._pages[page] = zlib.compress(_LENGTH.pack(len(rows)) + columns + odd, level=1)
        self._changes[page] = b""
        self._changed.pop(page, None)


def _odd_json(table: PartitionTable, slots: Sequence[int]) -> bytes:
    return json.dumps([(slot, table.odd[slot]) for slot in slots], separators=(",", ":")).encode() if slots else b""


def _read_odd(text: bytes) -> Iterator[tuple[int, Assignment]]:
    found: list[tuple[int, list[Any]]] = json.loads(text) if text else []
    for slot, (replicas, isr, elr, last_known_elr, *rest) in found:
        yield slot, Assignment(tuple(replicas), tuple(isr), tuple(elr), tuple(last_known_elr), *rest)


def _parts(blob: bytes, start: int) -> list[bytes]:
    parts: list[bytes] = []
    while start < len(blob):
        end = start + _LENGTH.size + _LENGTH.unpack_from(blob, start)[0]
        parts.append(blob[start + _LENGTH.size : end])
        start = end
    return parts


def _restored_table(
    end: int, topics: Sequence[bytes], pages: Sequence[bytes], changes: Sequence[bytes]
) -> tuple[PartitionTable, dict[int, Numbers]]:
    """Returns the table, and by page the slots that changed since the page was encoded."""
    ids: list[TopicId | None] = []
    names: list[str | None] = []
    for page_of_topics in topics:
        page_ids, page_names = json.loads(zlib.decompress(page_of_topics))
        ids += page_ids
        names += page_names
    rows: Rows = np.full(len(pages) * PAGE_ROWS, np.array(FREE_ROW, ROW))
    odd: dict[int, Assignment] = {}
    changed: dict[int, Numbers] = {}
    for page, (stored, newer) in enumerate(zip(pages, changes, strict=True)):
        first = page * PAGE_ROWS
        odd.update(_read_page(zlib.decompress(stored), rows[first : first + PAGE_ROWS]))
        if newer:
            slots, newer_odd = _read_changes(zlib.decompress(newer), rows[first : first + PAGE_ROWS])
            changed[page] = slots + np.int32(first)
            for slot in changed[page].tolist():
                odd.pop(slot, None)
            odd.update(newer_odd)
    return PartitionTable.restored(TopicNumbers.restored(ids, names), rows, end, odd), changed


def _read_page(content: bytes, rows: Rows) -> Iterator[tuple[int, Assignment]]:
    count, at = _LENGTH.unpack_from(content)[0], _LENGTH.size
    for name in ROW.names or ():
        dtype = ROW[name]
        rows[name][:count] = np.frombuffer(content, dtype, count, at)
        at += count * dtype.itemsize
    return _read_odd(content[at:])


def _read_changes(content: bytes, rows: Rows) -> tuple[Numbers, Iterator[tuple[int, Assignment]]]:
    count, at = _LENGTH.unpack_from(content)[0], _LENGTH.size
    indices = np.frombuffer(content, _INDEX, count, at)
    at += indices.nbytes
    rows[indices] = np.frombuffer(content, ROW, count, at)
    return indices.astype(np.int32), _read_odd(content[at + count * ROW.itemsize :])
