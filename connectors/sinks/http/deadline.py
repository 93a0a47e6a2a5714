"""A Cutoff: the end of a call's connections when its time is up.

The timeouts of HTTP libraries are for each wait by itself: a server that sends a byte now and then holds a call
for ever. This one is for the whole call, whichever library makes it: they all take an SSL context.
"""

import os
import socket
import ssl
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock, Timer
from types import TracebackType
from typing import Any

from requests.utils import DEFAULT_CA_BUNDLE_PATH


class Cutoff:
    """For one call; use it as a context manager."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._lock = Lock()
        self._watched: list[socket.socket] = []
        self._timer = Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> "Cutoff":
        """Time runs."""
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The call is over; its connections are left as they are."""
        self._timer.cancel()
        with self._lock:
            for each in self._watched:
                each.close()
            self._watched.clear()

    @property
    def over(self) -> bool:
        """The time is up."""
        return time.monotonic() >= self._until

    def context(self, ca_file: Path | None = None) -> ssl.SSLContext:
        """An SSL context whose connections end with the time; it trusts `ca_file`, or the public authorities."""
        context = _WatchedContext(ssl.PROTOCOL_TLS_CLIENT)
        context.cutoff = self
        if ca_file is not None:
            context.load_verify_locations(ca_file)
        else:
            context.load_default_certs()
            context.load_verify_locations(DEFAULT_CA_BUNDLE_PATH)
        return context

    def watch(self, connection: socket.socket) -> None:
        """End this one too. Its owner closes it as ever."""
        # A descriptor of our own: the owner's may be closed, and its number given to another, at any moment.
        copy = socket.socket(fileno=os.dup(connection.fileno()))
        with self._lock:
            self._watched.append(copy)
        if self.over:
            self._cut()

    def _cut(self) -> None:
        with self._lock:
            for each in self._watched:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


class _WatchedContext(ssl.SSLContext):
    cutoff: Cutoff

    def wrap_socket(self, sock: socket.socket, *args: Any, **options: Any) -> ssl.SSLSocket:
        """From here on: a handshake can hang as well."""
        self.cutoff.watch(sock)
        return super().wrap_socket(sock, *args, **options)
