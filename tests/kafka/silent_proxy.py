"""A TCP proxy in front of a node: it can stop serving new connections, as a process without file descriptors does."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class SilentProxy:
    """Listens at one address and forwards to another."""

    to: tuple[str, int]
    serves_new: bool = True
    """Whether a new connection is forwarded; else it is accepted and never answered. Older ones are forwarded."""
    _unserved: list[socket.socket] = field(default_factory=list)

    @contextmanager
    def up(self, address: tuple[str, int]) -> Iterator[None]:
        """Listens while the block runs."""
        with socket.create_server(address, backlog=128) as server:
            threading.Thread(target=self._accept, args=(server,), daemon=True).start()
            try:
                yield
            finally:
                server.shutdown(socket.SHUT_RDWR)
                for one in self._unserved:
                    one.close()

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                client, _ = server.accept()
                if not self.serves_new:
                    self._unserved.append(client)
                    continue
                node = socket.create_connection(self.to)
            except OSError:
                if server.fileno() < 0:
                    return
                continue
            for source, target in ((client, node), (node, client)):
                threading.Thread(target=_forward, args=(source, target), daemon=True).start()


def _forward(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while received := source.recv(65_536):
            target.sendall(received)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
