"""Stores a partition table as pages and runs of changed rows. A change costs what it changes, never the table.

Layout: TABLE_MAGIC; five numbers (the rows in use, the pages of topics, the pages of rows, the sealed runs, the number
of the first of them); then parts (`page_store.stored_part`): the number of the first run that applies to each page of
rows, each page of topics, each page of rows, each sealed run, and the open run.

The open run holds the rows that changed since the last run was sealed; it is encoded with every change, and sealed when
it is large. A page is encoded again when many of its rows changed at once. With many sealed runs, a few of the pages
to which the oldest one applies are encoded again with each change; a run that applies to no page is dropped. So
everything but the open run and the numbers is encoded once, and can be kept outside the state as a page.

All but the first part are deflated. A page of topics is JSON: ids and names. A page of rows is the number of rows, the
columns one after the other, and the assignments that do not fit into a row as JSON. A run is the number of rows, their
slots, the rows, and such assignments.
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
from streaming.replay.page_store import (
    TABLE_MAGIC,
    TABLE_NUMBERS,
    PageStore,
    part_content,
    split_parts,
    stored_part,
)
from streaming.replay.partition_row import FREE_ROW, ODD, ROW, Rows
from streaming.replay.partition_table import PartitionTable
from streaming.replay.topic_numbers import TopicNumbers

PAGE_ROWS: Final = 4_096
"""A page of rows is 128 KiB before, and usually less than 48 KiB after compression."""
PAGE_TOPICS: Final = 512
SMALL_PAGE: Final = 4_096
"""A first page below this size stays in the bytes: small clusters need no pages outside."""
MOST_CHANGES: Final = PAGE_ROWS // 8
"""A page of which more rows are in the open run is encoded again."""
RUN_BYTES: Final = 24 * 1024
"""The open run is sealed from this size on: about 600 changed rows."""
MOST_RUNS: Final = 64
"""With more sealed runs pages are encoded again, until the oldest run applies to none."""
_LENGTH: Final = struct.Struct(">I")
_SINCE: Final = np.dtype("<u4")
_SLOT: Final = np.dtype("<u4")
_NO_SLOTS: Final[Numbers] = np.zeros(0, np.int32)


class StoredTable:
    """A table and its parts."""

    def __init__(self, table: PartitionTable) -> None:
        self.table = table
        self._store: PageStore | None = None
        self._topics: list[bytes] = []
        self._pages: list[bytes] = []
        self._since: list[int] = []
        """By page of rows: the number of the first run that applies to it."""
        self._sealed: list[bytes] = []
        self._applies: list[set[int]] = []
        """By sealed run: the pages of rows to which it applies."""
        self._first = 0
        """The number of the first sealed run; the open run has the number after the last one."""
        self._open = b""
        self._open_slots = _NO_SLOTS

    @classmethod
    def restored(cls, blob: bytes, pages: PageStore | None = None) -> "StoredTable":
        """Returns what `to_bytes` returned.

        Raises:
            MissingPageError: one of its pages is missing or damaged.
            ValueError: the bytes are not a stored table.
        """
        end, topic_pages, row_pages, sealed, first = TABLE_NUMBERS.unpack_from(blob, len(TABLE_MAGIC))
        applicable, *parts = split_parts(blob, len(TABLE_MAGIC) + TABLE_NUMBERS.size)
        since = np.frombuffer(part_content(applicable, None), _SINCE).tolist()
        if len(parts) != topic_pages + row_pages + sealed + 1 or end > row_pages * PAGE_ROWS:
            raise ValueError(f"{len(parts)} parts of {topic_pages} and {row_pages} pages and {sealed} runs")
        contents = [zlib.decompress(part_content(part, pages)) for part in parts]
        stored_topics, stored_rows, runs = (
            contents[:topic_pages],
            contents[topic_pages:][:row_pages],
            contents[topic_pages + row_pages :],
        )
        rows: Rows = np.full(row_pages * PAGE_ROWS, np.array(FREE_ROW, ROW))
        odd: dict[int, Assignment] = {}
        for page, content in enumerate(stored_rows):
            odd.update(read_page(content, rows[page * PAGE_ROWS : (page + 1) * PAGE_ROWS]))
        applied = [_apply_run(content, number, since, rows, odd) for number, content in enumerate(runs, first)]
        stored = cls(PartitionTable.restored(read_topics(stored_topics), rows, end, odd))
        stored._topics, stored._pages = parts[:topic_pages], parts[topic_pages:][:row_pages]
        stored._since, stored._first = since, first
        stored._sealed, stored._open = parts[topic_pages + row_pages : -1], parts[-1]
        stored._applies = [_pages_of(slots) for slots in applied[:-1]]
        stored._open_slots = applied[-1]
        return stored

    def to_bytes(self, pages: PageStore | None = None) -> bytes:
        """Returns the table as it is now. Large parts that are encoded now are kept in `pages`; None: in the bytes."""
        self._store = pages
        self._encode_topics()
        changed = self.table.take_changed()
        new = range(len(self._pages), -(-self.table.end // PAGE_ROWS))
        self._pages += [b""] * len(new)
        self._since += [0] * len(new)
        if len(changed) or not self._open:
            slots = np.union1d(self._open_slots, changed).astype(np.int32)
            numbers, counts = np.unique(slots // PAGE_ROWS, return_counts=True)
            again = {*new, *numbers[counts > MOST_CHANGES].tolist()} | self._outdated()
            for page in sorted(again):
                self._encode_page(page)
            self._open_slots = slots[~np.isin(slots // PAGE_ROWS, [*again])] if again else slots
            self._encode_run()
        counts_of = (self.table.end, len(self._topics), len(self._pages), len(self._sealed), self._first)
        header = TABLE_MAGIC + TABLE_NUMBERS.pack(*counts_of)
        since = stored_part(np.array(self._since, _SINCE).tobytes(), None)
        return b"".join((header, since, *self._topics, *self._pages, *self._sealed, self._open))

    def _encode_topics(self) -> None:
        topics = self.table.topics
        pages = {number // PAGE_TOPICS for number in topics.changed}
        self._topics += [b""] * (-(-len(topics.ids) // PAGE_TOPICS) - len(self._topics))
        for page in pages:
            span = slice(page * PAGE_TOPICS, (page + 1) * PAGE_TOPICS)
            document = json.dumps([topics.ids[span], topics.names[span]], separators=(",", ":"))
            self._topics[page] = self._page(page, document.encode())
        topics.changed.clear()

    def _encode_page(self, page: int) -> None:
        table, first = self.table, page * PAGE_ROWS
        rows = table.rows[first : min(first + PAGE_ROWS, table.end)]
        odd = _odd_json(table, (np.flatnonzero(rows["flags"] & ODD) + first).tolist())
        columns = b"".join(rows[name].tobytes() for name in ROW.names or ())
        self._pages[page] = self._page(page, _LENGTH.pack(len(rows)) + columns + odd)
        self._since[page] = self._first + len(self._sealed)
        for pages in self._applies:
            pages.discard(page)
        while self._applies and not self._applies[0]:
            del self._applies[0], self._sealed[0]
            self._first += 1

    def _encode_run(self) -> None:
        slots = self._open_slots
        rows = self.table.rows[slots]
        odd = _odd_json(self.table, slots[rows["flags"] & ODD != 0].tolist())
        content = zlib.compress(
            _LENGTH.pack(len(slots)) + slots.astype(_SLOT).tobytes() + rows.tobytes() + odd, level=1
        )
        # It changes with every change, so it is never a page.
        self._open = stored_part(content, None)
        if len(content) > RUN_BYTES:
            self._sealed.append(stored_part(content, self._store))
            self._applies.append(_pages_of(slots))
            self._open_slots = _NO_SLOTS
            self._encode_run()

    def _outdated(self) -> set[int]:
        """Returns the pages that are encoded again now, so that the number of runs stays bounded."""
        surplus = len(self._sealed) - MOST_RUNS
        return set(sorted(self._applies[0])[:surplus]) if surplus > 0 else set()

    def _page(self, number: int, content: bytes) -> bytes:
        deflated = zlib.compress(content, level=1)
        return stored_part(deflated, None if number == 0 and len(deflated) < SMALL_PAGE else self._store)


def _pages_of(slots: Numbers) -> set[int]:
    return set(np.unique(slots // PAGE_ROWS).tolist())


def _odd_json(table: PartitionTable, slots: Sequence[int]) -> bytes:
    return json.dumps([(slot, table.odd[slot]) for slot in slots], separators=(",", ":")).encode() if slots else b""


def read_odd(text: bytes) -> Iterator[tuple[int, Assignment]]:
    """Yields slot and assignment of each row that holds none."""
    found: list[tuple[int, list[Any]]] = json.loads(text) if text else []
    for slot, (replicas, isr, elr, last_known_elr, *rest) in found:
        yield slot, Assignment(tuple(replicas), tuple(isr), tuple(elr), tuple(last_known_elr), *rest)


def read_topics(pages: Sequence[bytes]) -> TopicNumbers:
    """Returns the topics of all pages."""
    ids: list[TopicId | None] = []
    names: list[str | None] = []
    for page in pages:
        page_ids, page_names = json.loads(page)
        ids += page_ids
        names += page_names
    return TopicNumbers.restored(ids, names)


def read_page(content: bytes, rows: Rows) -> Iterator[tuple[int, Assignment]]:
    """Sets the rows of a page; returns the assignments that do not fit into them."""
    count, at = _LENGTH.unpack_from(content)[0], _LENGTH.size
    for name in ROW.names or ():
        dtype = ROW[name]
        rows[name][:count] = np.frombuffer(content, dtype, count, at)
        at += count * dtype.itemsize
    return read_odd(content[at:])


def _apply_run(content: bytes, number: int, since: Sequence[int], rows: Rows, odd: dict[int, Assignment]) -> Numbers:
    """Sets the rows of a run in the pages to which it applies; returns their slots."""
    count, at = _LENGTH.unpack_from(content)[0], _LENGTH.size
    slots = np.frombuffer(content, _SLOT, count, at).astype(np.int32)
    at += count * _SLOT.itemsize
    changed = np.frombuffer(content, ROW, count, at)
    applies = np.array(since, np.int64)[slots // PAGE_ROWS] <= number
    slots = slots[applies]
    rows[slots] = changed[applies]
    kept = set(slots.tolist())
    for slot in kept & odd.keys():
        del odd[slot]
    odd.update((slot, held) for slot, held in read_odd(content[at + count * ROW.itemsize :]) if slot in kept)
    return slots
