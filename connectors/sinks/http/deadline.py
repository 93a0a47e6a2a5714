"""CallDeadline: ends the connections of a call when its time is up.

The timeouts of HTTP libraries apply to each wait separately: a server that sends one byte now and then blocks a call
without limit. This deadline applies to the whole call, for every library that accepts an SSL context.
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


class CallDeadline:
    """For one call; use it as a context manager."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._lock = Lock()
        self._connections: list[socket.socket] = []
        self._timer = Timer(seconds, self._shut_down)
        self._timer.daemon = True

    def __enter__(self) -> "CallDeadline":
        """Starts the timer."""
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the supervision; the call's own connections stay open."""
        self._timer.cancel()
        with self._lock:
            for each in self._connections:
                each.close()
            self._connections.clear()

    @property
    def exceeded(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._until

    def context(self, ca_file: Path | None = None) -> ssl.SSLContext:
        """Returns an SSL context whose connections end at the deadline.

        It trusts the authorities in `ca_file`, or the public ones.
        """
        context = _SupervisedContext(ssl.PROTOCOL_TLS_CLIENT)
        context.deadline = self
        if ca_file is not None:
            context.load_verify_locations(ca_file)
        else:
            context.load_default_certs()
            context.load_verify_locations(DEFAULT_CA_BUNDLE_PATH)
        return context

    def supervise(self, connection: socket.socket) -> None:
        """Shuts down this connection too at the deadline. Its owner still closes it."""
        # A duplicate descriptor: the owner may close its own at any time, and the number may be reused.
        copy = socket.socket(fileno=os.dup(connection.fileno()))
        with self._lock:
            self._connections.append(copy)
        if self.exceeded:
            self._shut_down()

    def _shut_down(self) -> None:
        with self._lock:
            for each in self._connections:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


class _SupervisedContext(ssl.SSLContext):
    deadline: CallDeadline

    def wrap_socket(self, sock: socket.socket, *args: Any, **options: Any) -> ssl.SSLSocket:
        """Supervises the connection before the handshake, which can also block."""
        self.deadline.supervise(sock)
        return super().wrap_socket(sock, *args, **options)
