"""Requests that end at a deadline and keep a bounded part of the answer, for everything that uses the library requests.

The timeouts of requests apply to each wait for the server. A server that sends a byte every few seconds, in the TLS
handshake, the header or the body, or repeats `100 Continue`, is waited for without end. Inside `bounded`, each
connection that this thread opens is shut down at the deadline, which ends every wait for it. Only a name service that
does not answer is waited for: nothing can interrupt that.
"""

import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from io import BytesIO
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

ANSWER_BYTES = 65_536
"""Bytes that are kept of an answer where nothing else is said."""
_LEAST_S = 0.001
PAGE_BYTES = 4_096
"""Bytes that are read of an answer that may be a web page or report an error, where nothing of others is read."""


def is_html(headers: Mapping[str, str]) -> bool:
    """Returns whether an answer may be a web page for people."""
    return "html" in headers.get("Content-Type", "").lower()


def _may_report(headers: Mapping[str, str]) -> bool:
    """Returns whether an answer may say in few words that the request failed after all."""
    length = headers.get("Content-Length", "")
    return (length.isdecimal() and int(length) <= PAGE_BYTES) or "json" in headers.get("Content-Type", "").lower()


class Bound:
    """A deadline, and the connections that end at it. Used by one thread, ended by another."""

    def __init__(self, seconds: float, *, accepted_bytes: int, refused_bytes: int) -> None:
        """`accepted_bytes`, `refused_bytes`: how much of the body of an answer is read, below status 300 and above."""
        self._until = time.monotonic() + seconds
        self._accepted_bytes, self._refused_bytes = accepted_bytes, refused_bytes
        self.answers: list[tuple[int, Mapping[str, str], bytes]] = []
        """Status, headers and the beginning of the body of each answer."""
        self._lock = threading.Lock()
        self._connections: list[socket.socket] = []

    @property
    def left_s(self) -> float:
        """The time until the deadline; not 0, which would mean that nothing waits."""
        return max(_LEAST_S, self._until - time.monotonic())

    @property
    def over(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() >= self._until

    def read(self, response: requests.Response) -> bytes:
        """Returns the beginning of a response's body, and ends its connection."""
        accepted = response.status_code < 300
        limit = self._accepted_bytes if accepted else self._refused_bytes
        if accepted and (is_html(response.headers) or (not limit and _may_report(response.headers))):
            limit = max(limit, PAGE_BYTES)
        try:
            body: bytes = response.raw.read(limit, decode_content=True) if limit else b""
        finally:
            response.raw.close()
        # A header, or a body without a length, also ends where its connection ends: at the deadline.
        if self.over:
            raise TimeoutError
        self.answers.append((response.status_code, response.headers, body))
        return body

    def end(self) -> None:
        """Shuts all connections down: whoever waits for one gets an error."""
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Releases the connections."""
        with self._lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()

    def watch(self, opened: socket.socket) -> None:
        """Keeps another descriptor of the connection: TLS replaces the socket, and a descriptor may be used again."""
        with self._lock:
            if self.over:
                raise TimeoutError
            self._connections.append(opened.dup())


_BOUND: ContextVar[Bound | None] = ContextVar("bound", default=None)


def current_bound() -> Bound | None:
    """Returns the bound inside which this code runs; None outside."""
    return _BOUND.get()


@contextmanager
def bounded(
    seconds: float, *, accepted_bytes: int = ANSWER_BYTES, refused_bytes: int = ANSWER_BYTES
) -> Iterator[Bound]:
    """Bounds the requests that this thread sends inside with a `BoundedAdapter`, all together."""
    bound = Bound(seconds, accepted_bytes=accepted_bytes, refused_bytes=refused_bytes)
    timer = threading.Timer(seconds, bound.end)
    timer.daemon = True
    before = _BOUND.set(bound)
    timer.start()
    try:
        yield bound
    finally:
        timer.cancel()
        _BOUND.reset(before)
        bound.close()


class _BoundConnection(HTTPConnection):
    @property
    def sock(self) -> socket.socket | None:
        return self._opened

    @sock.setter
    def sock(self, opened: socket.socket | None) -> None:
        """Watches a socket once it is connected: before a proxy's answer and the TLS handshake."""
        self._opened = opened
        bound = _BOUND.get()
        # TLS replaces the socket, which is watched already.
        if bound is not None and opened is not None and not isinstance(opened, ssl.SSLSocket):
            opened.settimeout(bound.left_s)
            bound.watch(opened)

    def connect(self) -> None:
        bound = _BOUND.get()
        if bound is not None:
            # urllib3 tries one address after the other, each for so long.
            addresses = socket.getaddrinfo(self.host.strip("[]"), self.port, type=socket.SOCK_STREAM)
            self.timeout = bound.left_s / len(addresses)
        super().connect()


class _BoundTlsConnection(_BoundConnection, HTTPSConnection):
    """The same for TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _BoundConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _BoundTlsConnection


_POOLS = {"http": _Pool, "https": _TlsPool}


class BoundedAdapter(HTTPAdapter):
    """Sends requests as `bounded` says; outside of it, as requests does."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Makes the connections to servers."""
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        """Makes the connections through an HTTP proxy."""
        manager = super().proxy_manager_for(proxy, **options)
        if not proxy.lower().startswith("socks"):
            manager.pool_classes_by_scheme = _POOLS
        return manager

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        """Returns the response, whose body is read; raises requests.Timeout at the deadline."""
        bound = _BOUND.get()
        if bound is None:
            return super().send(request, *args, **options)
        try:
            response = super().send(request, **{**options, "stream": True, "timeout": bound.left_s})
            response.raw = BytesIO(bound.read(response))
        except (requests.RequestException, HTTPError, OSError) as problem:
            if bound.over:
                raise requests.Timeout(request=request) from None
            raise requests.ConnectionError(problem, request=request) from problem
        return response
