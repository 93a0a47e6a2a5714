"""A Kafka node of a few lines on loopback, for what a real one does only when it is broken or in need."""

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
    """Listens; each connection gets a thread with the behaviour."""

    behaviour: Behaviour
    tls: ssl.SSLContext | None = None
    connections: int = 0
    requests: list[int] = field(default_factory=list)
    """Api keys, as they came."""

    @contextmanager
    def up(self) -> Iterator[int]:
        """The port, while it listens."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=self._accept, args=(server,), daemon=True).start()
            yield server.getsockname()[1]
            server.shutdown(socket.SHUT_RDWR)

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                taken, _ = server.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(taken,), daemon=True).start()

    def _serve(self, taken: socket.socket) -> None:
        if self.tls is not None:
            taken = self.tls.wrap_socket(taken, server_side=True, do_handshake_on_connect=False)
        with taken, suppress(OSError, EOFError):
            if isinstance(taken, ssl.SSLSocket) and not _shaken(taken):
                return
            self.behaviour(taken)


def _shaken(peer: ssl.SSLSocket) -> bool:
    """Shake hands; after a failure stay until the client has gone, or the alert is lost with the connection."""
    try:
        peer.do_handshake()
    except ssl.SSLError:
        peer.settimeout(60)
        while socket.socket.recv(peer, 4096):
            pass
        return False
    return True


def read_request(peer: socket.socket) -> tuple[int, int, int]:
    """Api key, version and correlation id of the next request."""
    (size,) = struct.unpack(">i", _exactly(peer, 4))
    key, version, correlation = struct.unpack(">hhi", _exactly(peer, size)[:8])
    return key, version, correlation


def send(peer: socket.socket, correlation: int, body: bytes, *, flexible: bool) -> None:
    """An answer: ApiVersions never has the flexible header."""
    answer = struct.pack(">i", correlation) + (b"\0" if flexible else b"") + body
    peer.sendall(struct.pack(">i", len(answer)) + answer)


def answer_api_versions(peer: socket.socket, known: Mapping[int, tuple[int, int]] = _APIS) -> None:
    """Take the ApiVersions request and answer it."""
    key, version, correlation = read_request(peer)
    assert (key, version) == (API_VERSIONS, 4)
    apis = b"".join(struct.pack(">hhh", api, *versions) + b"\0" for api, versions in known.items())
    send(
        peer,
        correlation,
        struct.pack(">h", 0) + bytes([len(known) + 1]) + apis + struct.pack(">i", 0) + b"\0",
        flexible=False,
    )


def silent(peer: socket.socket) -> None:
    """Accepts and says nothing."""
    while peer.recv(4096):
        pass


def closing(peer: socket.socket) -> None:
    """Takes the first bytes and hangs up."""
    peer.recv(4096)


def closing_after_api_versions(peer: socket.socket) -> None:
    """As a SASL listener does to a client that does not log in."""
    answer_api_versions(peer)
    read_request(peer)


def saying(words: bytes) -> Behaviour:
    """Says something that is not Kafka's protocol."""

    def say(peer: socket.socket) -> None:
        peer.recv(4096)
        peer.sendall(words)
        silent(peer)

    return say


def refusing_login(peer: socket.socket) -> None:
    """Says why it refuses the login, and hangs up in the same breath."""
    answer_api_versions(peer)
    _, _, correlation = read_request(peer)
    handshake = struct.pack(">hi", 0, 1) + struct.pack(">h", 5) + b"PLAIN"
    send(peer, correlation, handshake, flexible=False)
    _, version, correlation = read_request(peer)
    words = b"Authentication failed: Invalid username or password"
    body = struct.pack(">h", 58) + struct.pack(">h", len(words)) + words + struct.pack(">i", 0)
    send(peer, correlation, body + (struct.pack(">q", 0) if version >= 1 else b""), flexible=False)


def describing_cluster(cluster_id: bytes) -> Behaviour:
    """Answers DescribeCluster as often as it is asked."""

    def answer(peer: socket.socket) -> None:
        answer_api_versions(peer)
        while True:
            _, version, correlation = read_request(peer)
            assert version == 2
            named = bytes([len(cluster_id) + 1]) + cluster_id
            body = struct.pack(">ih", 0, 0) + b"\0" + b"\x02" + named + struct.pack(">i", 1) + b"\x01"
            send(peer, correlation, body + struct.pack(">i", -(2**31)) + b"\0", flexible=True)

    return answer


def describing_quorum_v0(peer: socket.socket) -> None:
    """An old controller: knows no DescribeCluster, and answers DescribeQuorum v0 as often as it is asked."""
    answer_api_versions(peer, {18: (0, 4), 55: (0, 0)})
    while True:
        key, version, correlation = read_request(peer)
        assert (key, version) == (55, 0)
        voters = b"".join(struct.pack(">iq", node, end) + b"\0" for node, end in ((1, 40), (2, -1)))
        partition = struct.pack(">ihiiq", 0, 0, 1, 7, 39) + b"\x03" + voters + b"\x01" + b"\0"
        topic = b"\x13__cluster_metadata" + b"\x02" + partition + b"\0"
        send(peer, correlation, struct.pack(">h", 0) + b"\x02" + topic + b"\0", flexible=True)


def _exactly(peer: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        piece = peer.recv(size - len(got))
        if not piece:
            raise EOFError
        got += piece
    return got
