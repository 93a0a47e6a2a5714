"""A real HTTP server on loopback with configurable behaviour: correct, faulty, slow, or without a response."""

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias


@dataclass(frozen=True, kw_only=True)
class ReceivedRequest:
    """A request that the server received."""

    method: str
    path: str
    headers: Message
    body: bytes


@dataclass(frozen=True, kw_only=True)
class HttpReply:
    """Sends a complete response."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def to_bytes(self) -> bytes:
        headers = {"Content-Length": str(len(self.body)), "Content-Type": "application/json", **self.headers}
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}", *(f"{k}: {v}" for k, v in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


class NoReply:
    """Accepts the request and never responds."""


class ConnectionReset:
    """Accepts the request and resets the connection."""


class ResetInReply:
    """Resets the connection in the middle of the status line."""


@dataclass(frozen=True, kw_only=True)
class Drip:
    """Sends `begin`, and then `each` again and again for longer than any deadline: no wait for it is ever long."""

    begin: bytes = b""
    each: bytes

    def send_to(self, connection: socket.socket, closed: threading.Event) -> None:
        with suppress(OSError):
            connection.sendall(self.begin)
            for _ in range(1_200):
                connection.sendall(self.each)
                if closed.wait(0.05):
                    return


_OK, _FAILED = b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 500 Failed\r\n"
_CHUNKED, _LONG = b"Transfer-Encoding: chunked\r\n\r\n", b"Content-Length: 1000000\r\n\r\n"
DRIPS: Mapping[str, Drip] = {
    "status line": Drip(begin=b"HTTP/1.1 200 ", each=b"O"),
    "header": Drip(begin=_OK + b"X-Header: ", each=b"x"),
    "100 Continue": Drip(each=b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body of an error": Drip(begin=_FAILED + _LONG, each=b"x"),
    "chunks of an error": Drip(begin=_FAILED + _CHUNKED, each=b"1\r\nx\r\n"),
    "size of a chunk": Drip(begin=_FAILED + _CHUNKED, each=b"0"),
    "error without a length": Drip(begin=_FAILED + b"\r\n", each=b"x"),
}
"""By what never ends."""
DRIPPING_BODIES: Mapping[str, Drip] = {
    "body": Drip(begin=_OK + _LONG, each=b" "),
    "chunks": Drip(begin=_OK + _CHUNKED, each=b"1\r\n \r\n"),
    "without a length": Drip(begin=_OK + b"\r\n", each=b" "),
}
"""Of an answer that accepts the request."""

Behaviour: TypeAlias = HttpReply | NoReply | ConnectionReset | ResetInReply | Drip


class HttpDouble(ThreadingHTTPServer):
    """Accepts connections until it is closed; each connection has its own thread."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, context: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.requests: list[ReceivedRequest] = []
        self.behave: Callable[[ReceivedRequest], Behaviour] = lambda _: HttpReply()
        self.context = context
        self.connections: list[socket.socket] = []
        self.closed = threading.Event()
        self.port = self.server_port
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"{'http' if self.context is None else 'https'}://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.closed.set()
        self.shutdown()
        self.server_close()
        for each in self.connections:
            each.close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Prints nothing of a connection that was reset, or of a failed TLS handshake."""


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HttpDouble

    def setup(self) -> None:
        if self.server.context is not None:
            self.request = self.server.context.wrap_socket(self.request, server_side=True)
        self.server.connections.append(self.request)
        super().setup()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = ReceivedRequest(method=self.command, path=self.path, headers=self.headers, body=body)
        self.server.requests.append(request)
        match self.server.behave(request):
            case HttpReply() as reply:
                self.wfile.write(reply.to_bytes())
                return
            case NoReply():
                self.server.closed.wait()
            case ResetInReply():
                self.wfile.write(b"HTTP/1.1 20")
            case Drip() as drip:
                drip.send_to(self.request, self.server.closed)
            case ConnectionReset():
                pass
        self.close_connection = True
        # Closing without linger sends a RST.
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.request.close()

    do_GET = do_POST = do_PUT = _answer

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Logs nothing."""


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[HttpDouble]:
    """Runs a server."""
    server = HttpDouble(context)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def dripping(drip: Drip) -> Iterator[int]:
    """Runs a server that reads nothing and drips, for what comes before HTTP; yields its port."""
    closed = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    threading.Thread(target=_drip_once, args=(connection, drip, closed), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield listening.getsockname()[1]
        finally:
            closed.set()
            # Ends the wait for a connection, which closing does not.
            listening.shutdown(socket.SHUT_RDWR)


def _drip_once(connection: socket.socket, drip: Drip, closed: threading.Event) -> None:
    with connection:
        drip.send_to(connection, closed)
