"""A minimal Kafka node on loopback, for behaviour that a real node shows only when it fails."""

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

Behaviour = Callable[[socket.socket], None]
API_VERSIONS = 18
_APIS = {1: (4, 18), 17: (0, 1), 18: (0, 4), 32: (1, 4), 36: (0, 1), 55: (0, 2), 59: (0, 1), 60: (0, 2)}


@dataclass
class FakeNode:
    """Listens on loopback and runs the behaviour in one thread per connection."""

    behaviour: Behaviour
    tls: ssl.SSLContext | None = None
    connections: int = 0
    requests: list[int] = field(default_factory=list)
    """Received API keys, in order."""

    @contextmanager
    def up(self, port: int = 0, host: str = "127.0.0.1") -> Iterator[int]:
        """Yields the port while the node listens; any free one if `port` is 0."""
        with socket.create_server((host, port)) as server:
            threading.Thread(target=self._accept, args=(server,), daemon=True).start()
            yield server.getsockname()[1]
            server.shutdown(socket.SHUT_RDWR)

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                accepted, _ = server.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        if self.tls is not None:
            accepted = self.tls.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
        with accepted, suppress(OSError, EOFError):
            if isinstance(accepted, ssl.SSLSocket) and not _complete_handshake(accepted):
                return
            self.behaviour(accepted)


def _complete_handshake(peer: ssl.SSLSocket) -> bool:
    """Completes the TLS handshake; after a failure waits until the client disconnects, else the TLS alert is lost."""
    try:
        peer.do_handshake()
    except ssl.SSLError as problem:
        peer.settimeout(60)
        if problem.reason == "WRONG_VERSION_NUMBER":
            socket.socket.send(peer, bytes.fromhex("15030300020250"))  # Java's alert for a request without TLS
        while socket.socket.recv(peer, 4096):
            pass
        return False
    return True


def read_request(peer: socket.socket) -> tuple[int, int, int]:
    """Reads a request; returns its API key, version and correlation id."""
    (size,) = struct.unpack(">i", _exactly(peer, 4))
    key, version, correlation = struct.unpack(">hhi", _exactly(peer, size)[:8])
    return key, version, correlation


def send(peer: socket.socket, correlation: int, body: bytes, *, flexible: bool, followed_by: bytes = b"") -> None:
    """Sends a response and, in the same segment, further bytes. A response to ApiVersions has no flexible header."""
    answer = struct.pack(">i", correlation) + (b"\0" if flexible else b"") + body
    peer.sendall(struct.pack(">i", len(answer)) + answer + followed_by)


def answer_api_versions(
    peer: socket.socket, known: Mapping[int, tuple[int, int]] = _APIS, *, followed_by: bytes = b""
) -> None:
    """Reads an ApiVersions request and answers it; the bytes that follow arrive before the next request is sent."""
    key, version, correlation = read_request(peer)
    assert (key, version) == (API_VERSIONS, 4)
    apis = b"".join(struct.pack(">hhh", api, *versions) + b"\0" for api, versions in known.items())
    send(
        peer,
        correlation,
        struct.pack(">h", 0) + bytes([len(known) + 1]) + apis + struct.pack(">i", 0) + b"\0",
        flexible=False,
        followed_by=followed_by,
    )


def never_answers(peer: socket.socket) -> None:
    """Accepts the connection and never answers."""
    while peer.recv(4096):
        pass


def closes_connection(peer: socket.socket) -> None:
    """Reads the first bytes and closes the connection."""
    peer.recv(4096)


def answers_versions_alone(peer: socket.socket) -> None:
    """Behaves like a controller whose Raft thread waits for its disk."""
    answer_api_versions(peer)
    never_answers(peer)


def closes_after_api_versions(peer: socket.socket) -> None:
    """Behaves like a SASL listener to a client that does not log in."""
    answer_api_versions(peer)
    read_request(peer)


def sends_bytes(content: bytes) -> Behaviour:
    """Sends bytes that are not the Kafka protocol."""

    def behaviour(peer: socket.socket) -> None:
        peer.recv(4096)
        peer.sendall(content)
        never_answers(peer)

    return behaviour


def rejects_login(peer: socket.socket) -> None:
    """Rejects the login with an error message and closes the connection at once."""
    answer_api_versions(peer)
    _, _, correlation = read_request(peer)
    handshake = struct.pack(">hi", 0, 1) + struct.pack(">h", 5) + b"PLAIN"
    send(peer, correlation, handshake, flexible=False)
    _, version, correlation = read_request(peer)
    message = b"Authentication failed: Invalid username or password"
    body = struct.pack(">h", 58) + struct.pack(">h", len(message)) + message + struct.pack(">i", 0)
    send(peer, correlation, body + (struct.pack(">q", 0) if version >= 1 else b""), flexible=False)


def answers_describe_cluster(cluster_id: bytes, *, most: int = 10**9) -> Behaviour:
    """Answers so many DescribeCluster requests of a connection, and then ends it."""

    def answer(peer: socket.socket) -> None:
        answer_api_versions(peer)
        for _ in range(most):
            _, version, correlation = read_request(peer)
            assert version == 2
            encoded_id = bytes([len(cluster_id) + 1]) + cluster_id
            body = struct.pack(">ih", 0, 0) + b"\0" + b"\x02" + encoded_id + struct.pack(">i", 1) + b"\x01"
            send(peer, correlation, body + struct.pack(">i", -(2**31)) + b"\0", flexible=True)

    return answer


def answers_describe_quorum_v0(peer: socket.socket) -> None:
    """An old controller: does not support DescribeCluster, and answers every DescribeQuorum v0."""
    answer_api_versions(peer, {18: (0, 4), 55: (0, 0)})
    while True:
        key, version, correlation = read_request(peer)
        assert (key, version) == (55, 0)
        voters = b"".join(struct.pack(">iq", node, end) + b"\0" for node, end in ((1, 40), (2, -1)))
        partition = struct.pack(">ihiiq", 0, 0, 1, 7, 39) + b"\x03" + voters + b"\x01" + b"\0"
        topic = b"\x13__cluster_metadata" + b"\x02" + partition + b"\0"
        send(peer, correlation, struct.pack(">h", 0) + b"\x02" + topic + b"\0", flexible=True)


def _exactly(peer: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        piece = peer.recv(size - len(received))
        if not piece:
            raise EOFError
        received += piece
    return received
