"""A real HTTP server on loopback that behaves as it is told: well, badly, slowly, or not at all."""

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
class Request:
    """What came."""

    method: str
    path: str
    headers: HTTPMessage
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Answers."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def written(self) -> bytes:
        stated = {"Content-Length": str(len(self.body)), "Content-Type": "application/json", **self.headers}
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}", *(f"{k}: {v}" for k, v in stated.items())]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


class Silent:
    """Takes the request and never answers."""


class Reset:
    """Takes the request and breaks the connection."""


class ResetMidAnswer:
    """Breaks the connection in the middle of the status line."""


class Drip:
    """Answers a byte at a time, for ever: a header that never ends."""


Behaviour: TypeAlias = Answer | Silent | Reset | ResetMidAnswer | Drip


class Server:
    """Accepts until it is closed; every connection has a thread of its own."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.requests: list[Request] = []
        self.behave: Callable[[Request], Behaviour] = lambda _: Answer()
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
        # A thread that waits in accept() holds the port until it is woken.
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
                if not self._answer(connection, self.behave(request)):
                    break
            connection.close()

    def _answer(self, connection: socket.socket, behaviour: Behaviour) -> bool:
        """Whether the connection goes on."""
        match behaviour:
            case Answer():
                connection.sendall(behaviour.written())
                return True
            case Silent():
                self._closed.wait()
            case Reset():
                _reset(connection)
            case ResetMidAnswer():
                connection.sendall(b"HTTP/1.1 20")
                _reset(connection)
            case Drip():
                connection.sendall(b"HTTP/1.1 200 OK\r\nX-Patience: ")
                while not self._closed.wait(0.02):
                    connection.sendall(b"a")
        return False


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Server]:
    """A server for a while."""
    server = Server(context)
    try:
        yield server
    finally:
        server.close()


def _request(stream: BufferedIOBase) -> Request | None:
    line = stream.readline().decode()
    if not line.strip():
        return None
    method, path, _ = line.split(" ", 2)
    headers = parse_headers(stream)
    body = stream.read(int(headers.get("Content-Length", 0)))
    return Request(method=method, path=path, headers=headers, body=body)


def _reset(connection: socket.socket) -> None:
    # Closing with data unsent and no linger is a RST.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
