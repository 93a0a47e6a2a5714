"""Reads a Fetch response that repeats an earlier one of the same connection with other offsets and records.

An idle leader answers four times a second with the same bytes but for its high watermark, its offsets and the records.
Such a response is compared with the earlier one, which was checked (`response_check`) and decoded by kafka-python:
every other byte is the same, so nothing else in it must be checked or decoded again.
"""

import struct
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

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
_LONGEST_VARINT: Final = 4


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
    length = shift = 0
    at = _RECORDS_AT
    for _ in range(_LONGEST_VARINT):
        if at >= len(content):
            return None
        byte = content[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            end = at + length - 1
            # A length of 0 is null.
            return (at, end) if length and end <= len(content) else None
        shift += 7
    return None
