"""What a node may send to stop the observation of others, and all that Kafka may send at once."""

import random
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from rules.model.membership import MOST_VOTERS
from tests.farm.farm_answers import FETCH
from tests.unit.connectors.kafka.kafka_answers import fetch_answer, quorum_answer, replica_row
from tests.unit.connectors.metadata.metadata_bytes import batch, control, uvarint

MEBIBYTE: Final = 1024 * 1024
Lie = Callable[[int, int], Iterator[bytes | float]]
"""Yields what is sent instead of an answer to a request of this API and correlation id; a number is a pause in s."""


def _describe_quorum(*, voters: int = 1, observers: int = 0) -> bytes:
    """A DescribeQuorum response (version 2) of a leader, without nodes."""

    def replicas(first: int, count: int) -> list[Any]:
        return [replica_row(node, node.to_bytes(16), end=0) for node in range(first, first + count)]

    answer = quorum_answer(epoch=1, high_watermark=0, voters=replicas(1, voters), observers=replicas(10_000, observers))
    return bytes(answer.encode(version=2))


def _framed(body: bytes, correlation: int) -> bytes:
    return struct.pack(">iib", len(body) + 5, correlation, 0) + body


def _ten_million_nodes(_: int, correlation: int) -> Iterator[bytes]:
    head = _describe_quorum()[:-2]  # without its empty array of nodes
    rows = 10_000_000
    size = 5 + len(head) + len(uvarint(rows + 1)) + rows * 6 + 1
    yield struct.pack(">iib", size, correlation, 0) + head + uvarint(rows + 1)
    for _ in range(100):
        yield (struct.pack(">i", 1) + b"\x01\0") * (rows // 100)
    yield b"\0"


_GARBAGE = random.Random(7).randbytes(MEBIBYTE)


def _garbage_of_a_legal_size(_: int, correlation: int) -> Iterator[bytes]:
    yield _framed(_GARBAGE, correlation)


def _frame_without_end(_: int, _correlation: int) -> Iterator[bytes]:
    yield struct.pack(">i", 2**31 - 1)
    while True:
        yield bytes(MEBIBYTE)


def _drip(_: int, _correlation: int) -> Iterator[bytes | float]:
    for byte in struct.pack(">i", 1_000) + bytes(1_000):
        yield bytes([byte])
        yield 1.0


def _frames_nobody_requested(_: int, _correlation: int) -> Iterator[bytes]:
    while True:
        yield (struct.pack(">i", 100) + bytes(100)) * 1_000


@cache
def _largest_answer(api: int) -> bytes:
    if api != FETCH:
        return _describe_quorum(voters=MOST_VOTERS, observers=4_900)
    # 8 MiB of small control batches: the records that take longest to read.
    one = len(batch([control(6, b"\0\0\0")]))
    records = b"".join(batch([control(6, b"\0\0\0")], base_offset=offset) for offset in range(8 * MEBIBYTE // one))
    answer = fetch_answer(leader=1, epoch=1, high_watermark=10**6, log_start_offset=0, records=records)
    return bytes(answer.encode(version=18))


def _largest(api: int, correlation: int) -> Iterator[bytes]:
    """All that Kafka may send, at once and each time: no lie."""
    yield _framed(_largest_answer(api), correlation)


LARGEST: Final = "largest"
LIES: Mapping[str, Lie] = {
    "ten-million-nodes": _ten_million_nodes,
    "garbage-of-a-legal-size": _garbage_of_a_legal_size,
    "frame-without-end": _frame_without_end,
    "drip": _drip,
    "frames-nobody-requested": _frames_nobody_requested,
}
INSTEAD: Mapping[str, Lie] = {**LIES, LARGEST: _largest}
"""What the clusters of the farm may send instead of their answers to Fetch and DescribeQuorum, by name."""
