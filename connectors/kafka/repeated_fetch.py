"""The Fetch that is sent all the time: its request as an earlier one with other numbers, its repeated response.

An idle leader answers four times a second with the same bytes but for its high watermark, its offsets and the records.
Such a response is compared with the earlier one, which was checked (`response_check`) and decoded by kafka-python:
every other byte is the same, so nothing else in it must be checked or decoded again.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from connectors.errors import UndecodableError
from connectors.kafka.kafka_python import FetchRequest
from connectors.metadata.field_readers import uvarint

_HEADER: Final = struct.Struct(">ihhih")
"""Size of what follows, API key and version, correlation id, size of the client id."""
_HEADER_REST: Final = _HEADER.size - 4
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_NUMBERS: Final = (
    ("current_leader_epoch", _INT32, 0x5A5A_0001),
    ("fetch_offset", _INT64, 0x5A5A_0000_0000_0002),
    ("last_fetched_epoch", _INT32, 0x5A5A_0003),
    ("high_watermark", _INT64, 0x5A5A_0000_0000_0004),
)
"""The fields of a Fetch's partition that change, and a number by which each is found in the encoded bytes."""
_MAX_WAIT_MS: Final = 0x5A5A_0005
_TEMPLATES: Final = 1_000
"""At most; each has some 100 bytes."""
_BEFORE: Final = 4
"""The correlation id, which the connection checks."""
_FIRST_TOPICS_BY_ID: Final = 13
_CONSTANT: Final = 1 + 4 + 2 + 4 + 1 + 16 + 1 + 4 + 2
"""Header tags, throttle time, error, session, number of topics, topic id, number of partitions, partition, error."""
_OFFSETS: Final = struct.Struct(">qqq")
"""High watermark, last stable offset, log start offset."""
_OFFSETS_AT: Final = _BEFORE + _CONSTANT
_AFTER_OFFSETS: Final = _OFFSETS_AT + _OFFSETS.size
_RECORDS_AT: Final = _AFTER_OFFSETS + 1 + 4
"""After the number of aborted transactions, none, and the preferred replica."""
_LONGEST_TAIL: Final = 1_024


class LogFetchRequest(FetchRequest, init=False):  # type: ignore[misc, call-arg]
    """A Fetch of one partition. Its bytes are those of an earlier one in which five numbers are replaced.

    All other fields are the same in each Fetch, or part of the template's key.
    """

    __slots__ = ()

    def encode(self, *args: Any, **options: Any) -> Any:
        """Encodes it as kafka-python does."""
        if args or options:
            return super().encode(*args, **options)
        partition = self.topics[0].partitions[0]
        key = (self.API_VERSION, self.cluster_id, self.max_bytes, partition.partition_max_bytes)
        template = _templates.get(key)
        if template is None:
            if len(_templates) >= _TEMPLATES:
                _templates.clear()
            template = _templates[key] = self._template(partition)
        body = bytearray(template.content)
        _INT32.pack_into(body, template.max_wait_ms, self.max_wait_ms)
        for name, number, place in template.numbers:
            number.pack_into(body, place, getattr(partition, name))
        return body

    def _template(self, partition: Any) -> "_Template":
        values = [(name, getattr(partition, name)) for name, _, _ in _NUMBERS]
        max_wait_ms: int = self.max_wait_ms
        _set(partition, ((name, mark) for name, _, mark in _NUMBERS))
        _set(self, [("max_wait_ms", _MAX_WAIT_MS)])
        try:
            content = bytes(super().encode())
        finally:
            _set(partition, values)
            _set(self, [("max_wait_ms", max_wait_ms)])
        places = [(name, number, content.find(number.pack(mark))) for name, number, mark in _NUMBERS]
        return _Template(
            content=content,
            max_wait_ms=content.index(_INT32.pack(_MAX_WAIT_MS)),
            # Before version 18 there is no high watermark.
            numbers=tuple(one for one in places if one[2] >= 0),
        )


class _Template(NamedTuple):
    """The encoded body of a Fetch, and where its numbers stand."""

    content: bytes
    max_wait_ms: int
    numbers: tuple[tuple[str, struct.Struct, int], ...]


_templates: dict[tuple[Any, ...], _Template] = {}


def _set(message: Any, values: Iterable[tuple[str, int]]) -> None:
    for name, value in values:
        setattr(message, name, value)


def request_frame(request: Any, correlation_id: int, client_id: bytes) -> bytes:
    """Returns a request of a chosen version with its length and header, as kafka-python encodes it."""
    version = request.API_VERSION
    body = request.encode()
    # The client id is not compact in any version, so that any Kafka can read the header (KIP-511).
    head = client_id + b"\0" if request.flexible_version_q(version) else client_id
    size = _HEADER_REST + len(head) + len(body)
    return b"".join((_HEADER.pack(size, request.API_KEY, version, correlation_id, len(client_id)), head, body))


@dataclass(slots=True)
class EarlierFetch:
    """A response that was checked and decoded completely: one partition without an error."""

    response: Any
    version: int
    start: bytes
    middle: bytes
    tail: bytes
    """Everything after the records: the leader and its endpoint."""
    parsed: Any = None
    """What `connectors.kafka.messages` made of it."""


class RepeatedFetchResponse(NamedTuple):
    """A response that differs from the earlier one in these values only."""

    earlier: EarlierFetch
    high_watermark: int
    log_start_offset: int
    records: bytes
    throttle_time_ms: int = 0


class RepeatedFetch:
    """The newest complete Fetch response of one connection."""

    def __init__(self) -> None:
        self._earlier: EarlierFetch | None = None

    def read(self, content: memoryview, version: int) -> RepeatedFetchResponse | None:
        """Returns the response if it repeats the earlier one; None if it must be checked and decoded.

        Args:
            content: the whole response without its length; its correlation id is the request's.
            version: of the request.
        """
        earlier = self._earlier
        if earlier is None or earlier.version != version:
            return None
        if content[_BEFORE:_OFFSETS_AT] != earlier.start or content[_AFTER_OFFSETS:_RECORDS_AT] != earlier.middle:
            return None
        records = _records(content)
        if records is None or content[records[1] :] != earlier.tail:
            return None
        high_watermark, _, log_start_offset = _OFFSETS.unpack_from(content, _OFFSETS_AT)
        return RepeatedFetchResponse(earlier, high_watermark, log_start_offset, bytes(content[slice(*records)]))

    def remember(self, content: memoryview, version: int, response: Any) -> None:
        """Takes a response that was checked and decoded, if others can repeat it."""
        self._earlier = None
        if version < _FIRST_TOPICS_BY_ID or content[_BEFORE] != 0 or not _is_ordinary(response):
            return
        records = _records(content)
        if records is not None and len(content) - records[1] <= _LONGEST_TAIL:
            self._earlier = EarlierFetch(
                response,
                version,
                bytes(content[_BEFORE:_OFFSETS_AT]),
                bytes(content[_AFTER_OFFSETS:_RECORDS_AT]),
                bytes(content[records[1] :]),
            )


def _is_ordinary(response: Any) -> bool:
    """Whether it has one partition, whose fields are all numbers but the records."""
    if response.error_code or response.throttle_time_ms or len(response.responses or ()) != 1:
        return False
    (topic,) = response.responses
    if len(topic.partitions) != 1:
        return False
    (partition,) = topic.partitions
    return not (
        partition.error_code
        or partition.aborted_transactions
        or partition.diverging_epoch is not None
        or partition.snapshot_id is not None
    )


def _records(content: memoryview) -> tuple[int, int] | None:
    """Returns where the records begin and end; None if there is no such array, or it exceeds the response."""
    try:
        length, at = uvarint(content, _RECORDS_AT)
    except (IndexError, UndecodableError):
        return None
    end = at + length - 1
    # A length of 0 is null.
    return (at, end) if length and end <= len(content) else None
