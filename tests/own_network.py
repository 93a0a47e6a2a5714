"""A network of its own for one process: what it reaches can be cut, as by a switch that drops packets."""

import ctypes
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import pytest

_LOOPBACK = "127.0.0.1"
_NEW_NETWORK = 0x40000000
"""CLONE_NEWNET of setns(2)."""

needs_own_network = pytest.mark.skipif(
    subprocess.run(["unshare", "--net", "true"], check=False, capture_output=True).returncode != 0,
    reason="this user may not make network namespaces",
)


class OwnNetwork:
    """A network namespace, while entered. Its loopback has nothing but the ports that are reached or published."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._passes: dict[int, threading.Event] = {}
        """Whether bytes pass, by port."""

    def __enter__(self) -> Self:
        script = "ip link set lo up && echo up && exec sleep infinity"
        self._holder = subprocess.Popen(["unshare", "--net", "sh", "-c", script], stdout=subprocess.PIPE)
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"up\n"
        self._stack.callback(self._holder.stdout.close)
        self._stack.callback(self._holder.wait)
        self._stack.callback(self._holder.kill)
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()
        self._stack.close()

    @property
    def _namespace(self) -> Path:
        return Path(f"/proc/{self._holder.pid}/ns/net")

    @property
    def prefix(self) -> tuple[str, ...]:
        """The command that runs another one in this network."""
        return ("nsenter", f"--net={self._namespace}")

    def reach(self, *ports: int) -> None:
        """Makes ports of this machine's loopback reachable, at the same ports of the own one."""
        for port in ports:
            self._listen(self._own_socket(), port, socket.socket)

    def publish(self) -> int:
        """Returns a port of this machine at which the same port of the own network is reached; it is never cut."""
        listening = socket.socket()
        listening.bind((_LOOPBACK, 0))
        port: int = listening.getsockname()[1]
        self._listen(listening, port, self._own_socket)
        return port

    def cut(self, *ports: int) -> None:
        """From now on nothing passes, in either direction; connections stay open."""
        for port in ports:
            self._passes[port].clear()

    def restore(self) -> None:
        """What was sent meanwhile arrives now."""
        for each in self._passes.values():
            each.set()

    def _own_socket(self) -> socket.socket:
        """A socket stays in the network in which its thread was when it made it."""
        with Path("/proc/thread-self/ns/net").open() as before, self._namespace.open() as own:
            _enter(own.fileno())
            try:
                return socket.socket()
            finally:
                _enter(before.fileno())

    def _listen(self, listening: socket.socket, port: int, connecting: Callable[[], socket.socket]) -> None:
        passes = self._passes[port] = threading.Event()
        passes.set()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listening.getsockname()[1] == 0:
            listening.bind((_LOOPBACK, port))
        listening.listen()
        self._stack.callback(_close, listening)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listening.accept()
                    threading.Thread(target=connect, args=(client,), daemon=True).start()

        def connect(client: socket.socket) -> None:
            # While it is cut no connection comes about.
            if not passes.is_set():
                passes.wait()
                _close(client)
                return
            server = connecting()
            try:
                server.connect((_LOOPBACK, port))
            except OSError:
                _close(client)
                _close(server)
                return
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=_pass_on, args=(source, target, passes), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket, passes: threading.Event) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            passes.wait()
            target.sendall(data)
    passes.wait()
    _close(source)
    _close(target)


def _close(one: socket.socket) -> None:
    # A thread that waits in accept() or recv() holds the socket until it is shut down.
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
