"""One connection: its login again, a quota of the node, and versions that a node rejects."""

import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka.net.sasl import get_sasl_mechanism

from connectors.kafka.bounded_protocol import _RESPONSES
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.messages import describe_quorum_request, fetch_request
from rules.model.monitoring import Reason
from tests.unit.connectors.kafka.client_settings import PLAIN
from tests.unit.connectors.kafka.clients import ask, client_of
from tests.unit.connectors.kafka.fake_node import FakeNode, answer_api_versions, read_request, send
from tests.unit.connectors.kafka.responses import fetched, quorum
from tests.unit.connectors.observation_failure import failure_of

HANDSHAKE, AUTHENTICATE, DESCRIBE_QUORUM = 17, 36, 55


def session_of(lifetime_ms: int, requests: list[int], *, accepts: int = 99) -> Callable[[socket.socket], None]:
    """Accepts so many logins, each for a session of this lifetime, and answers DescribeQuorum; notes every request."""

    def behaviour(peer: socket.socket) -> None:
        answer_api_versions(peer)
        while True:
            key, _, correlation = read_request(peer)
            requests.append(key)
            match key:
                case 17:
                    send(peer, correlation, struct.pack(">hih", 0, 1, 5) + b"PLAIN", flexible=False)
                case 36:
                    accepted = requests.count(AUTHENTICATE) <= accepts
                    result = struct.pack(">hhi", 0 if accepted else 58, -1, 0)
                    send(peer, correlation, result + struct.pack(">q", lifetime_ms), flexible=False)
                case _:
                    send(peer, correlation, quorum(), flexible=True)

    return behaviour


def test_a_connection_logs_in_again_before_its_session_ends(loop: EventLoop) -> None:
    requests: list[int] = []
    node = FakeNode(session_of(1_000, requests))
    client = client_of(loop, PLAIN)
    with node.up() as port:
        ended = time.monotonic() + 3
        while time.monotonic() < ended and requests.count(AUTHENTICATE) < 3:
            assert ask(loop, client, port, describe_quorum_request()).error_code == 0
        assert ask(loop, client, port, describe_quorum_request()).error_code == 0

    assert node.connections == 1
    assert requests[:2] == [HANDSHAKE, AUTHENTICATE]
    assert requests.count(HANDSHAKE) == requests.count(AUTHENTICATE) == 3
    again = requests.index(HANDSHAKE, 2)
    assert requests[again + 1] == AUTHENTICATE, "no other request is sent during the login"


def test_a_rejected_login_ends_the_session_and_a_new_connection_is_opened(loop: EventLoop) -> None:
    requests: list[int] = []
    node = FakeNode(session_of(1_000, requests, accepts=1))
    client = client_of(loop, PLAIN)

    async def polled_until_rejected() -> None:
        await loop.sleep(1.5)

    with node.up() as port:
        ask(loop, client, port, describe_quorum_request())
        loop.run(polled_until_rejected)
        problem = failure_of(lambda: ask(loop, client, port, describe_quorum_request()))

    assert problem.reason is Reason.NOT_AUTHENTICATED
    assert node.connections == 2


def test_a_quota_of_the_node_delays_the_next_request(loop: EventLoop) -> None:
    received: list[float] = []

    def throttles(peer: socket.socket) -> None:
        answer_api_versions(peer)
        while True:
            _, _, correlation = read_request(peer)
            received.append(time.monotonic())
            send(peer, correlation, struct.pack(">i", 400) + fetched()[4:], flexible=True)

    client = client_of(loop, {})
    with FakeNode(throttles).up() as port:
        for _ in range(2):
            ask(loop, client, port, fetch_request(cluster_id="x"))

    assert received[1] - received[0] >= 0.4


def test_a_node_that_rejects_every_version_is_asked_no_version_twice(loop: EventLoop) -> None:
    versions: list[int] = []

    def rejects(peer: socket.socket) -> None:
        while True:
            _, version, correlation = read_request(peer)
            versions.append(version)
            send(peer, correlation, struct.pack(">hihhh", 35, 1, 18, 0, 4), flexible=False)

    with FakeNode(rejects).up() as port:
        problem = failure_of(lambda: ask(loop, client_of(loop, {}), port, describe_quorum_request()))

    assert problem.reason is Reason.CLOSED
    assert versions == [4, 3, 2, 1, 0]


def test_kafka_python_has_the_one_private_name_that_is_used() -> None:
    """Its public `decode` does not return where a response ends: bytes after its end could not be refused."""
    for response in _RESPONSES.values():
        assert callable(response._struct.compiled_decode_from), "used by connectors/kafka/bounded_protocol.py"


@pytest.mark.parametrize("name", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"])
def test_kafka_python_has_every_sasl_mechanism(name: str) -> None:
    mechanism: Any = get_sasl_mechanism(name)
    for method in ("auth_bytes", "receive", "is_done", "is_authenticated"):
        assert callable(getattr(mechanism, method)), "used by connectors/kafka/login.py"
