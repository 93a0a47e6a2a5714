"""A real HTTP server on loopback with configurable behaviour: correct, faulty, slow, or without a response."""

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPMessage, parse_headers
from io import BufferedIOBase
from typing import TypeAlias


@dataclass(frozen=True, kw_only=True)
class ReceivedRequest:
    """A request that the server received."""

    method: str
    path: str
    headers: HTTPMessage
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


class HttpDouble:
    """Accepts connections until it is closed; each connection has its own thread."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.requests: list[ReceivedRequest] = []
        self.behave: Callable[[ReceivedRequest], Behaviour] = lambda _: HttpReply()
        self._context = context
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._closed = threading.Event()
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"{'http' if self._context is None else 'https'}://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._closed.set()
        # A thread that waits in accept() holds the port until the socket is shut down.
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, ValueError):
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
                self._open.append(connection)
            stream = connection.makefile("rb")
            while (request := _request(stream)) is not None:
                self.requests.append(request)
                if not self._reply(connection, self.behave(request)):
                    break
            connection.close()

    def _reply(self, connection: socket.socket, behaviour: Behaviour) -> bool:
        """Sends the reply; returns whether the connection stays open."""
        match behaviour:
            case HttpReply():
                connection.sendall(behaviour.to_bytes())
                return True
            case NoReply():
                self._closed.wait()
            case ConnectionReset():
                _reset(connection)
            case ResetInReply():
                connection.sendall(b"HTTP/1.1 20")
                _reset(connection)
        return False


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[HttpDouble]:
    """Runs a server."""
    server = HttpDouble(context)
    try:
        yield server
    finally:
        server.close()


def _request(stream: BufferedIOBase) -> ReceivedRequest | None:
    line = stream.readline().decode()
    if not line.strip():
        return None
    method, path, _ = line.split(" ", 2)
    headers = parse_headers(stream)
    body = stream.read(int(headers.get("Content-Length", 0)))
    return ReceivedRequest(method=method, path=path, headers=headers, body=body)


def _reset(connection: socket.socket) -> None:
    # Closing with unsent data and without linger sends a RST.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
