"""The server of `--listen`: Flask blueprints on Tornado's event loop.

Without a token (`PageAccess`) everyone who can connect reads the pages, and nobody can change anything. Against DNS
rebinding the server answers only requests for an IP address, `localhost`, the host of `--listen` and that of
`page_url`.

A slow client occupies a connection but no thread. Each connection serves one request and ends at a deadline; at the
limit of connections a new one closes the oldest. /healthz and /readyz have a thread that no page can occupy.
"""

import asyncio
import logging
import os
import socket
import threading
from asyncio import TimerHandle
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Self

from flask import Blueprint
from tornado.http1connection import HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerConnectionDelegate,
    HTTPServerRequest,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import IOStream
from tornado.wsgi import WSGIContainer

from connectors.errors import UsageError
from streaming.web.application import HEALTH_PATHS, application
from streaming.web.page_access import PageAccess

CLIENT_S = 10
"""The time to send the header of a request, its TLS handshake included, and then the time to send its body."""
REQUEST_S = 60
"""The time from the connection to the last byte of the answer."""
CONNECTION_LIMIT = 256
"""Open connections, and so requests that wait for a thread: each holds a file descriptor."""
_THREADS = 4
_START_S = 10
_HEADER_BYTES = 32_768
_KEPT_BYTES = 65_536
"""How much of a body the application gets: more than it accepts, so that it refuses a longer one."""
_BODY_BYTES = 256 << 20
"""The longest body that is read, and dropped beyond _KEPT_BYTES: a connection that is closed before its body was read
is reset, and the client may not see the answer."""


class Server:
    """Serves blueprints on HOST:PORT in its own threads while entered."""

    def __init__(
        self,
        address: tuple[str, int],
        blueprints: Iterable[Blueprint],
        *,
        page_url: Callable[[], str | None] | None = None,
        access: PageAccess | None = None,
    ) -> None:
        """Listens; answers once entered. UsageError if the address, the certificate or the token cannot be used."""
        host, port = address
        access = access or PageAccess()
        access.check_tokens()
        self._tls = access.tls()
        self._application = partial(application, host=host, access=access)
        self._app = self._application(blueprints, page_url=page_url)
        # Clients must not be able to fill the job's log.
        logging.getLogger("tornado").setLevel(logging.CRITICAL)
        self._socket = _listening_socket(host, port)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="web", daemon=True)

    def show(self, blueprints: Iterable[Blueprint], *, page_url: Callable[[], str | None] | None = None) -> None:
        """Serves these blueprints from now on, in place of those before."""
        self._app = self._application(blueprints, page_url=page_url)

    @property
    def port(self) -> int:
        """The port of the server."""
        port: int = self._socket.getsockname()[1]
        return port

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait(_START_S)
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(5)

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        threads = [ThreadPoolExecutor(count, thread_name_prefix="web") for count in (_THREADS, 1)]
        pages, health = (_Container(lambda *call: self._app(*call), thread) for thread in threads)

        def answer(request: HTTPServerRequest) -> None:
            (health if request.path in HEALTH_PATHS else pages)(request)

        server = _BoundedServer(
            answer,
            ssl_options=self._tls,
            no_keep_alive=True,
            idle_connection_timeout=CLIENT_S,
            body_timeout=CLIENT_S,
            max_header_size=_HEADER_BYTES,
            max_body_size=_BODY_BYTES,
        )
        server.add_socket(self._socket)
        self._started.set()
        await self._stopping.wait()
        server.stop()
        for executor in threads:
            executor.shutdown(wait=False, cancel_futures=True)
        await server.close_all_connections()


class _Container(WSGIContainer):
    """Tornado's container that also sets the length of a body that came in chunks: WSGI reads no other body."""

    def environ(self, request: HTTPServerRequest) -> dict[str, Any]:
        """Returns the WSGI environment of a request, whose body is read."""
        environ = super().environ(request)
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        return {**environ, "CONTENT_LENGTH": str(len(request.body))}


class _Request(HTTPMessageDelegate):
    """One request with the beginning of its body, which is bytes whatever its type: Tornado would parse forms."""

    def __init__(self, answer: Callable[[HTTPServerRequest], None], connection: HTTPConnection) -> None:
        self._answer, self._connection = answer, connection
        self._request: HTTPServerRequest | None = None
        self._body = bytearray()

    def headers_received(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> None:
        """As `HTTPMessageDelegate.headers_received`."""
        assert isinstance(start_line, RequestStartLine)
        self._request = HTTPServerRequest(connection=self._connection, start_line=start_line, headers=headers)

    def data_received(self, chunk: bytes) -> None:
        """Keeps a part of the body while there is room."""
        self._body += chunk[: _KEPT_BYTES - len(self._body)]

    def finish(self) -> None:
        """Answers the request."""
        assert self._request is not None
        self._request.body = bytes(self._body)
        self._answer(self._request)


class _BoundedServer(HTTPServer):
    """Tornado's server with a limit of connections and a deadline for each."""

    def initialize(self, *args: Any, **options: Any) -> None:
        super().initialize(*args, **options)
        self._deadlines: dict[IOStream, TimerHandle] = {}
        """The open connections, oldest first."""

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        """Returns what receives the next request of a connection."""
        assert not isinstance(self.request_callback, HTTPServerConnectionDelegate)
        return _Request(self.request_callback, request_conn)

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        """Serves a new connection; at the limit the oldest one is closed, which is most likely a slow client's."""
        if len(self._deadlines) >= CONNECTION_LIMIT:
            self._close(next(iter(self._deadlines)))
        self._deadlines[stream] = asyncio.get_running_loop().call_later(REQUEST_S, self._close, stream)
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        """Forgets a connection that has ended."""
        assert isinstance(server_conn, HTTP1ServerConnection)
        self._forget(server_conn.stream)
        super().on_close(server_conn)

    def _close(self, stream: IOStream) -> None:
        self._forget(stream)
        stream.close()

    def _forget(self, stream: IOStream) -> None:
        deadline = self._deadlines.pop(stream, None)
        if deadline is not None:
            deadline.cancel()


def _listening_socket(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family)
    except OSError as problem:
        # The error text of Python contains the address; an unknown host name has a negative error number.
        number = problem.errno or 0
        reason = (os.strerror(number) if number > 0 else problem.strerror or "cannot be used").lower()
        raise UsageError(f"--listen {host}:{port}: {reason}; choose another address") from None
    listening.settimeout(0)
    return listening
