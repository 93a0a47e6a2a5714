"""StoredTopics: every topic of a log with its partitions, and their stored form in pages.

A topic belongs to one page; new topics go to the newest page until it is full, or to one that has become half empty.
Storing encodes only the pages that changed. Large states keep their pages outside, in a PageStore, so that the state
itself stays small. A page never changes: its reference is the hash of its content.

A stored table is TABLE_MAGIC, one part for the directories of the brokers (`DirectoryNumbers`), and one for each page:
a byte that says whether the content or its reference follows, the length, and that. A page is deflated JSON: for each
topic its id, its name, its min.insync.replicas, and of each partition the number and the fields of its Assignment, with
the place of its directories in the list that follows: few partitions of a page differ in them.
"""

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Protocol

from rules.model.identifiers import NodeId, TopicId
from streaming.replay.directory_numbers import DirectoryNumbers, Numbers

TABLE_MAGIC: Final = b"kpt1"
"""A table that is stored in parts begins with it."""
REFERENCE_BYTES: Final = 16
_INLINE, _REFERENCE = 0, 1
_HEADER: Final = struct.Struct(">BI")


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


def table_references(stored: bytes) -> Iterator[bytes]:
    """Yields the references in a stored table; an empty one has none.

    Raises:
        ValueError: it is damaged.
    """
    if stored.startswith(TABLE_MAGIC):
        parts = parts_of(stored)
        yield from (part[_HEADER.size :] for part in parts if part[0] == _REFERENCE)


def deflated(content: bytes) -> bytes:
    """Returns the content as a zlib stream.

    With a window of 16 kB: clearing the 270 kB of zlib's usual tables takes longer than compressing a small state.
    """
    stream = zlib.compressobj(1, zlib.DEFLATED, 14, 5)
    return stream.compress(content) + stream.flush()


PAGE_PARTITIONS: Final = 1_024
"""New topics go to another page than one with so many partitions. Such a page has about 10 kB."""
SMALL_PAGE: Final = 4_096
"""A first page below this size stays in the bytes: small clusters need no pages outside."""


class Assignment(NamedTuple):
    """A partition's replicas, in-sync replicas, eligible leader replicas (KIP-966), leader and directories.

    Kafka's PartitionRegistration without adding replicas and removing replicas.
    """

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    elr: tuple[NodeId, ...]
    last_known_elr: tuple[NodeId, ...]
    leader: NodeId | None
    leader_epoch: int | None
    """Raised by every change that sets the leader, also to no leader; None until a PartitionRecord is read."""
    partition_epoch: int | None
    """Raised by every change; None until a PartitionRecord is read."""
    directories: Numbers = ()
    """In the order of the replicas."""


@dataclass(slots=True, kw_only=True)
class Topic:
    """A topic; its name is None until a TopicRecord is read."""

    name: str | None = None
    partitions: dict[int, Assignment] = field(default_factory=dict)
    min_isr: int | None = None
    """Its own min.insync.replicas; None: that of the cluster."""
    page: int = field(default=0, compare=False)


class StoredTopics:
    """Topics by their id; whoever changes one marks its page as changed."""

    def __init__(self) -> None:
        self.by_id: dict[TopicId, Topic] = {}
        self._ids_of: dict[str, tuple[TopicId, ...]] = {}
        """By name, nearly always one: a ClearElrRecord names its topic, and there may be a hundred thousand."""
        self.changed: set[int] = set()
        """The pages that changed since the last call of `to_bytes`."""
        self._pages: list[dict[TopicId, Topic]] = [{}]
        self._parts: list[bytes] = [b""]
        """The stored form of each page."""
        self.sizes: list[int] = [0]
        """How many topics and partitions each page holds."""
        self.count = 0
        """How many topics and partitions there are."""
        self._open = 0
        """The page of new topics."""
        self.directories = DirectoryNumbers()
        self._stored_directories: tuple[int, bytes] = (0, b"")
        """How many there were, which never decreases, and the part that they were stored as."""

    @classmethod
    def restored(cls, stored: bytes, store: PageStore | None) -> "StoredTopics":
        """Returns what `to_bytes` returned.

        Raises:
            MissingPageError: one of the pages is missing or damaged.
            ValueError: the bytes are not a stored table.
        """
        topics, parts = cls(), parts_of(stored)
        if parts:
            topics.directories = DirectoryNumbers(part_content(parts[0], store))
            topics._stored_directories = topics.directories.count, parts[0]
        # A log without topics has no page.
        if len(parts) > 1:
            topics._parts = parts[1:]
            topics._pages = [_decoded(part_content(part, store), page) for page, part in enumerate(topics._parts)]
            topics.sizes = [len(page) + sum(len(topic.partitions) for topic in page.values()) for page in topics._pages]
            topics.count = sum(topics.sizes)
            for content in topics._pages:
                topics.by_id.update(content)
            for topic_id, topic in topics.by_id.items():
                topics._add_name(topic_id, topic.name)
            topics._open = len(topics._pages) - 1
        return topics

    def to_bytes(self, store: PageStore | None) -> bytes:
        """Returns the topics as they are now. Pages that changed are kept in `store`; None: in the bytes."""
        for page in sorted(self.changed):
            self._parts[page] = packed_part(_encoded(self._pages[page]), store, small=SMALL_PAGE if page == 0 else 0)
        self.changed.clear()
        count, part = self._stored_directories
        if not part or count < self.directories.count:
            part = packed_part(deflated(self.directories.to_json()), store)
            self._stored_directories = self.directories.count, part
        return TABLE_MAGIC + part + b"".join(self._parts)

    def add(self, topic_id: TopicId) -> Topic:
        """Adds a topic that is unknown, without name and partitions."""
        if self.sizes[self._open] >= PAGE_PARTITIONS:
            self._open = self._page_with_room()
        topic = Topic(page=self._open)
        self.by_id[topic_id] = self._pages[self._open][topic_id] = topic
        self.partition_added(topic)
        self.changed.add(self._open)
        return topic

    def partition_added(self, topic: Topic) -> None:
        """Counts a topic, or a partition that was added to it."""
        self.sizes[topic.page] += 1
        self.count += 1

    def to_change(self, topic_id: TopicId) -> Topic:
        """Returns a topic that is to be changed; it is added if it is unknown."""
        topic = self.by_id.get(topic_id)
        if topic is None:
            return self.add(topic_id)
        self.changed.add(topic.page)
        return topic

    def set_name(self, topic_id: TopicId, name: str) -> None:
        """Names a topic; it is added if it is unknown."""
        topic = self.to_change(topic_id)
        self._remove_name(topic_id, topic.name)
        self._add_name(topic_id, name)
        topic.name = name

    def named(self, name: str | None) -> list[TopicId]:
        """Returns the ids of the topics with this name; None: of every topic."""
        return [*self.by_id] if name is None else [*self._ids_of.get(name, ())]

    def remove(self, topic_id: TopicId) -> None:
        """Removes a topic and its partitions; nothing happens if it is unknown."""
        topic = self.by_id.pop(topic_id, None)
        if topic is not None:
            self._remove_name(topic_id, topic.name)
            del self._pages[topic.page][topic_id]
            self.changed.add(topic.page)
            self.sizes[topic.page] -= 1 + len(topic.partitions)
            self.count -= 1 + len(topic.partitions)

    def _add_name(self, topic_id: TopicId, name: str | None) -> None:
        if name is not None:
            self._ids_of[name] = (*self._ids_of.get(name, ()), topic_id)

    def _remove_name(self, topic_id: TopicId, name: str | None) -> None:
        if name is not None:
            self._ids_of[name] = tuple(one for one in self._ids_of[name] if one != topic_id)
            if not self._ids_of[name]:
                del self._ids_of[name]

    def _page_with_room(self) -> int:
        for page, size in enumerate(self.sizes):
            if size < PAGE_PARTITIONS // 2:
                return page
        self._pages.append({})
        self._parts.append(b"")
        self.sizes.append(0)
        return len(self._pages) - 1


def parts_of(stored: bytes) -> list[bytes]:
    """Returns the parts of a stored table.

    Raises:
        ValueError: the last part is cut off.
    """
    parts: list[bytes] = []
    start = len(TABLE_MAGIC)
    while start < len(stored):
        if len(stored) < start + _HEADER.size:
            raise ValueError(f"a part ends after {len(stored) - start} bytes")
        end = start + _HEADER.size + _HEADER.unpack_from(stored, start)[1]
        parts.append(stored[start:end])
        start = end
    return parts


def packed_part(content: bytes, store: PageStore | None, *, small: int = SMALL_PAGE) -> bytes:
    """Returns a part of a table: the content if it has fewer bytes than `small`, or its reference in `store`."""
    if store is None or len(content) < small:
        return _HEADER.pack(_INLINE, len(content)) + content
    return _HEADER.pack(_REFERENCE, REFERENCE_BYTES) + store.put(content)


def part_content(part: bytes, store: PageStore | None) -> bytes:
    """Returns what a part holds, itself or by reference; raises MissingPageError."""
    kind, content = part[0], part[_HEADER.size :]
    if kind == _INLINE:
        return content
    if store is None:
        raise MissingPageError(f"page {content.hex()} is not in the state")
    return store.get(content)


def with_pages(stored: bytes, store: PageStore | None) -> bytes:
    """Returns a stored table, which may be empty, with all pages in it; raises MissingPageError."""
    if not stored.startswith(TABLE_MAGIC):
        return stored
    return TABLE_MAGIC + b"".join(packed_part(part_content(part, store), None) for part in parts_of(stored))


def _encoded(page: dict[TopicId, Topic]) -> bytes:
    directories: dict[Numbers, int] = {}
    topics = [
        (
            topic_id,
            topic.name,
            topic.min_isr,
            [
                (number, *held[:-1], directories.setdefault(held.directories, len(directories)))
                for number, held in topic.partitions.items()
            ],
        )
        for topic_id, topic in page.items()
    ]
    return deflated(json.dumps((topics, [*directories]), separators=(",", ":")).encode())


def _decoded(content: bytes, page: int) -> dict[TopicId, Topic]:
    topics, listed = json.loads(zlib.decompress(content))
    directories = [_same(tuple(each)) for each in listed]
    return {
        TopicId(topic_id): Topic(
            name=name, min_isr=min_isr, partitions=dict(_partitions(stored, directories)), page=page
        )
        for topic_id, name, min_isr, stored in topics
    }


def _partitions(stored: list[list[Any]], directories: list[Numbers]) -> Iterator[tuple[int, Assignment]]:
    for number, replicas, isr, elr, last_known_elr, leader, leader_epoch, partition_epoch, place in stored:
        same = tuple(replicas)
        # One object where the values are the same, as in nearly all partitions.
        in_sync = same if isr == replicas else tuple(isr)
        fields = (same, in_sync, tuple(elr), tuple(last_known_elr), leader, leader_epoch, partition_epoch)
        yield number, Assignment(*fields, directories[place])


@lru_cache(maxsize=1 << 14)
def _same(directories: Numbers) -> Numbers:
    """Returns one object for equal directories: most partitions have one of few."""
    return directories
