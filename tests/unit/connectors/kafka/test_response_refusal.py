"""Responses that no Kafka node sends, over real sockets: each is refused before it is buffered or decoded."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connectors.kafka.event_loop import EventLoop
from connectors.kafka.messages import describe_quorum_request, fetch_request, fetch_snapshot_request
from connectors.kafka.response_limits import MAX_BATCH_BYTES
from rules.model.identifiers import SnapshotId
from rules.model.monitoring import Reason
from tests.unit.connectors.kafka.certificates import authority
from tests.unit.connectors.kafka.clients import ask, client_of
from tests.unit.connectors.kafka.fake_node import FakeNode, answer_api_versions, read_request, send
from tests.unit.connectors.kafka.responses import METADATA, array, fetched, quorum
from tests.unit.connectors.metadata.metadata_bytes import uvarint
from tests.unit.connectors.observation_failure import failure_of

FETCH, DESCRIBE_QUORUM, FETCH_SNAPSHOT = 1, 55, 59


def replica(node: int = 1) -> bytes:
    return struct.pack(">i16xqqq", node, 5, -1, -1) + b"\0"


def node(host: bytes, *, listeners: bytes | None = None) -> bytes:
    listener = array(1, b"\x02C" + uvarint(len(host) + 1) + host + struct.pack(">H", 9093) + b"\0")
    return struct.pack(">i", 1) + (listener if listeners is None else listeners) + b"\0"


def answers(body: bytes) -> Callable[[Any], None]:
    """Answers every request after ApiVersions with this body."""

    def behaviour(peer: Any) -> None:
        answer_api_versions(peer)
        while True:
            _, _, correlation = read_request(peer)
            send(peer, correlation, body, flexible=True)

    return behaviour


def announces(size: int) -> Callable[[Any], None]:
    """Answers a request after ApiVersions with a frame of which only the length arrives."""

    def behaviour(peer: Any) -> None:
        answer_api_versions(peer)
        read_request(peer)
        peer.sendall(struct.pack(">i", size))
        while peer.recv(4096):
            pass

    return behaviour


REQUESTS: dict[int, Callable[[], Any]] = {
    DESCRIBE_QUORUM: describe_quorum_request,
    FETCH: lambda: fetch_request(cluster_id="x"),
    FETCH_SNAPSHOT: lambda: fetch_snapshot_request(
        cluster_id="x", leader_epoch=0, snapshot=SnapshotId(end_offset=9, epoch=2), position=0, max_bytes=65_536
    ),
}


def response(loop: EventLoop, behaviour: Callable[[Any], None], api: int = DESCRIBE_QUORUM) -> Any:
    with FakeNode(behaviour).up() as port:
        return ask(loop, client_of(loop, {}), port, REQUESTS[api]())


def refusal(loop: EventLoop, behaviour: Callable[[Any], None], api: int = DESCRIBE_QUORUM) -> str:
    problem = failure_of(lambda: response(loop, behaviour, api))
    assert problem.reason is Reason.INVALID_RESPONSE, problem
    return problem.detail


@pytest.mark.parametrize(
    ("api", "size", "text"),
    [
        (DESCRIBE_QUORUM, 60_000_000, "DescribeQuorum: a response of 60000000 bytes"),
        (DESCRIBE_QUORUM, 2**31 - 1, "DescribeQuorum: a response of 2147483647 bytes"),
        (DESCRIBE_QUORUM, -1, "DescribeQuorum: a response of -1 bytes"),
        (FETCH, MAX_BATCH_BYTES + 300_000, "Fetch: a response of "),
        (FETCH_SNAPSHOT, 400_000, "FetchSnapshot: a response of 400000 bytes"),
    ],
)
def test_announced_size_beyond_the_limit_of_the_request_is_refused_before_the_content_arrives(
    loop: EventLoop, api: int, size: int, text: str
) -> None:
    detail = refusal(loop, announces(size), api)
    assert detail.startswith(text), detail
    assert "at most" in detail


def test_response_that_was_not_requested_is_refused(loop: EventLoop) -> None:
    def sends_endless_frames(peer: Any) -> None:
        frames = (struct.pack(">i", 100) + bytes(100)) * 1000
        answer_api_versions(peer, followed_by=frames)
        while True:
            peer.sendall(frames)

    detail = refusal(loop, sends_endless_frames)
    assert detail == "the node sent a response that was not requested"


def test_response_to_another_request_is_refused(loop: EventLoop) -> None:
    def other_correlation_id(peer: Any) -> None:
        answer_api_versions(peer)
        _, _, correlation = read_request(peer)
        send(peer, correlation + 1, quorum(), flexible=True)

    assert "the correlation id is 3, requested was 2" in refusal(loop, other_correlation_id)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (quorum(nodes=array(10_000_000)), "cannot be decoded"),
        (quorum(nodes=array(5, node(b"c1"))), "cannot be decoded"),
        (quorum(observers=array(6_000, replica() * 6_000)), "at most 262144 are accepted"),
        (quorum(nodes=b"\xff" * 6), "cannot be decoded"),
        (quorum()[:-1] + uvarint(3_000_000), "cannot be decoded"),
        (quorum() + bytes(2), "has 60 bytes, its fields have 58"),
        (quorum()[:-3], "cannot be decoded"),
        (quorum(nodes=array(1, node(b"\xff\xfe"))), "cannot be decoded"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_response_with_more_than_kafka_sends_is_refused(loop: EventLoop, body: bytes, text: str) -> None:
    detail = refusal(loop, answers(body))
    assert detail.startswith("DescribeQuorum: "), detail
    assert text in detail


def test_largest_response_is_read_completely_over_tls(loop: EventLoop, tmp_path: Path) -> None:
    """5,000 replicas. Bytes that TLS has decrypted already are not seen by the selector."""
    ca = authority(tmp_path)
    client = client_of(loop, {"security_protocol": "SSL", "ssl_cafile": ca.file})
    behaviour = answers(quorum(voters=array(1_000, replica() * 1_000), observers=array(4_000, replica() * 4_000)))
    with FakeNode(behaviour, tls=ca.server(ca.issue("server"))).up() as port:
        polled = [ask(loop, client, port, describe_quorum_request()) for _ in range(3)]
    assert [len(one.topics[0].partitions[0].observers) for one in polled] == [4_000] * 3


def test_unknown_tagged_fields_of_a_newer_kafka_are_skipped(loop: EventLoop) -> None:
    tagged = uvarint(1) + uvarint(40) + uvarint(3) + b"new"
    body = quorum(voters=array(2, (replica()[:-1] + tagged) * 2))[:-1] + tagged
    assert len(response(loop, answers(body)).topics[0].partitions[0].current_voters) == 2


def test_api_versions_with_eight_million_entries_is_refused(loop: EventLoop) -> None:
    def many_api_versions(peer: Any) -> None:
        _, _, correlation = read_request(peer)
        body = struct.pack(">h", 0) + array(8_000_000, bytes(7) * 8_000_000) + bytes(5)
        send(peer, correlation, body, flexible=False)

    assert refusal(loop, many_api_versions).startswith("ApiVersions: a response of ")


def test_api_versions_of_an_older_node_that_rejects_the_version_is_accepted(loop: EventLoop) -> None:
    """A node answers an unknown version of ApiVersions in version 0 with UNSUPPORTED_VERSION (KIP-511)."""

    def older(peer: Any) -> None:
        _, version, correlation = read_request(peer)
        assert version == 4
        send(peer, correlation, struct.pack(">hihhh", 35, 1, 18, 0, 3), flexible=False)
        _, version, correlation = read_request(peer)
        assert version == 3
        apis = b"".join(struct.pack(">hhh", *api) + b"\0" for api in ((18, 0, 3), (55, 0, 2)))
        send(peer, correlation, struct.pack(">h", 0) + array(2, apis) + struct.pack(">i", 0) + b"\0", flexible=False)
        _, _, correlation = read_request(peer)
        send(peer, correlation, quorum(), flexible=True)

    assert response(loop, older).error_code == 0


def snapshot_piece(records: bytes, *, tags: bytes = b"\0") -> bytes:
    """The body of a FetchSnapshot v1 response."""
    partition = struct.pack(">ihqi", 0, 0, 9, 2) + tags + struct.pack(">qq", 100, 0)
    return bytes(6) + array(1, METADATA + array(1, partition + uvarint(len(records) + 1) + records + b"\0")) + b"\0\0"


def test_large_records_are_accepted(loop: EventLoop) -> None:
    content = bytes(1_000_000)
    assert response(loop, answers(fetched(records=content)), FETCH).responses[0].partitions[0].records == content
    content = bytes(60_000)
    piece = response(loop, answers(snapshot_piece(content)), FETCH_SNAPSHOT).topics[0].partitions[0]
    assert (piece.unaligned_records, piece.size) == (content, 100)


@pytest.mark.parametrize(
    ("api", "body", "text"),
    [
        (FETCH, fetched(array(300_000, bytes(17) * 300_000)), "Fetch: the response cannot be decoded"),
        (FETCH, fetched(after=b"\0\0" + uvarint(400_000) + bytes(800_000)), "bytes besides the records"),
        (FETCH, bytes(10) + array(100_000, (bytes(16) + b"\1\0") * 100_000) + b"\0", "Fetch: "),
        (FETCH, fetched(records=b"12345")[:-6], "Fetch: the response cannot be decoded"),
        (FETCH_SNAPSHOT, bytes(350_000), "FetchSnapshot: a response of 350"),
        (FETCH_SNAPSHOT, snapshot_piece(b"", tags=uvarint(9)), "FetchSnapshot: the response cannot be decoded"),
    ],
    ids=["aborted", "tags", "topics", "cut off", "size", "tags of an id"],
)
def test_records_are_the_only_large_part_of_a_response(loop: EventLoop, api: int, body: bytes, text: str) -> None:
    assert text in refusal(loop, answers(body), api)


def test_header_of_a_response_with_many_tagged_fields_is_refused(loop: EventLoop) -> None:
    def behaviour(peer: Any) -> None:
        answer_api_versions(peer)
        _, _, correlation = read_request(peer)
        content = struct.pack(">i", correlation) + uvarint(100_000) + bytes(200_000)
        peer.sendall(struct.pack(">i", len(content)) + content)
        while peer.recv(4096):
            pass

    assert "cannot be decoded" in refusal(loop, behaviour)
