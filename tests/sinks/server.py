"""A real HTTP server on loopback with configurable behaviour: correct, faulty, slow, or without a response."""

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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


Behaviour: TypeAlias = HttpReply | NoReply | ConnectionReset | ResetInReply


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
