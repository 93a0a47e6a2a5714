"""A controller on loopback that tells the truth, and the lies of a node that could stop the observation of others."""

import random
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from kafka.protocol.admin import DescribeClusterResponse, DescribeConfigsResponse

from rules.model.membership import MOST_VOTERS
from tests.unit.connectors.kafka.fake_node import Behaviour, answer_api_versions, read_request, send
from tests.unit.connectors.kafka.kafka_answers import fetch_answer, quorum_answer, replica_row
from tests.unit.connectors.metadata.metadata_bytes import batch, control, uvarint

FETCH, DESCRIBE_CONFIGS, DESCRIBE_QUORUM, DESCRIBE_CLUSTER = 1, 32, 55, 60
MEBIBYTE = 1024 * 1024
_CLUSTER_ID = "lies-and-truth-0000000"
Answers = Mapping[int, Callable[[int], bytes]]
"""By API: the body of the response in this version."""


def describe_quorum(version: int, *, voters: int = 1, observers: int = 0) -> bytes:
    """A DescribeQuorum response of a leader."""

    def replicas(first: int, count: int) -> list[Any]:
        return [replica_row(node, node.to_bytes(16), end=0) for node in range(first, first + count)]

    answer = quorum_answer(epoch=1, high_watermark=0, voters=replicas(1, voters), observers=replicas(10_000, observers))
    return bytes(answer.encode(version=version))


def fetch(version: int, **partition: Any) -> bytes:
    """A leader's Fetch response."""
    fields = {"high_watermark": 0, "log_start_offset": 0, **partition}
    return bytes(fetch_answer(leader=1, epoch=1, **fields).encode(version=version))


def _describe_cluster(version: int) -> bytes:
    answer = DescribeClusterResponse(error_code=0, endpoint_type=2, cluster_id=_CLUSTER_ID, brokers=[])
    return bytes(answer.encode(version=version))


TRUTH: Answers = {
    FETCH: fetch,
    DESCRIBE_QUORUM: describe_quorum,
    DESCRIBE_CLUSTER: _describe_cluster,
    DESCRIBE_CONFIGS: lambda version: bytes(DescribeConfigsResponse(results=[]).encode(version=version)),
}


def controller(answers: Answers = TRUTH) -> Behaviour:
    """Answers every request; a Fetch after half a second, as a long poll does."""

    def behaviour(peer: socket.socket) -> None:
        answer_api_versions(peer)
        while True:
            key, version, correlation = read_request(peer)
            if answers is TRUTH and key == FETCH:
                threading.Event().wait(0.5)
            send(peer, correlation, answers[key](version), flexible=True)

    return behaviour


def _lie(answer: Callable[[socket.socket, int], None]) -> Behaviour:
    """Tells the truth about its versions and its cluster, and then lies."""

    def behaviour(peer: socket.socket) -> None:
        answer_api_versions(peer)
        while True:
            key, version, correlation = read_request(peer)
            if key in (DESCRIBE_CLUSTER, DESCRIBE_CONFIGS):
                send(peer, correlation, TRUTH[key](version), flexible=True)
            else:
                answer(peer, correlation)

    return behaviour


def _ten_million_nodes(peer: socket.socket, correlation: int) -> None:
    head = describe_quorum(2)[:-2]  # without its empty array of nodes
    rows = 10_000_000
    size = 5 + len(head) + len(uvarint(rows + 1)) + rows * 6 + 1
    peer.sendall(struct.pack(">iib", size, correlation, 0) + head + uvarint(rows + 1))
    for _ in range(100):
        peer.sendall((struct.pack(">i", 1) + b"\x01\0") * (rows // 100))
    peer.sendall(b"\0")


_GARBAGE = random.Random(7).randbytes(MEBIBYTE)


def _garbage_of_a_legal_size(peer: socket.socket, correlation: int) -> None:
    send(peer, correlation, _GARBAGE, flexible=True)


def _frame_without_end(peer: socket.socket, _: int) -> None:
    peer.sendall(struct.pack(">i", 2**31 - 1))
    while True:
        peer.sendall(bytes(MEBIBYTE))


def _drip(peer: socket.socket, _: int) -> None:
    for byte in struct.pack(">i", 1_000) + bytes(1_000):
        peer.sendall(bytes([byte]))
        if threading.Event().wait(1):
            return


def _frames_nobody_requested(peer: socket.socket) -> None:
    answer_api_versions(peer)
    while True:
        peer.sendall((struct.pack(">i", 100) + bytes(100)) * 1_000)


@cache
def _largest_log() -> bytes:
    """8 MiB of small control batches: the records that take longest to read."""
    one = len(batch([control(6, b"\0\0\0")]))
    return b"".join(batch([control(6, b"\0\0\0")], base_offset=offset) for offset in range(8 * MEBIBYTE // one))


@cache
def _largest_quorum() -> bytes:
    return describe_quorum(2, voters=MOST_VOTERS, observers=4_900)


LARGEST: Answers = {
    **TRUTH,
    FETCH: lambda version: fetch(version, records=_largest_log(), high_watermark=10**6),
    DESCRIBE_QUORUM: lambda _: _largest_quorum(),
}
"""All that Kafka may send, at once and each time."""

LIES: Mapping[str, Behaviour] = {
    "ten-million-nodes": _lie(_ten_million_nodes),
    "garbage-of-a-legal-size": _lie(_garbage_of_a_legal_size),
    "frame-without-end": _lie(_frame_without_end),
    "drip": _lie(_drip),
    "frames-nobody-requested": _frames_nobody_requested,
}
