"""A real HTTP proxy on loopback: tunnels CONNECT, and records where to."""

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

LOGIN = "proxy-user:proxy-password"


@dataclass
class ConnectProxy:
    """Accepts CONNECT with the right login only."""

    listening: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    targets: list[str] = field(default_factory=list)
    """HOST:PORT of each tunnel."""
    refused: list[str] = field(default_factory=list)
    """The first line of each request that is no CONNECT with the right login."""
    _open: list[socket.socket] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{LOGIN}@127.0.0.1:{self.listening.getsockname()[1]}"

    def serve(self) -> None:
        while True:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            self._open.append(client)
            threading.Thread(target=self._tunnel, args=(client,), daemon=True).start()

    def close(self) -> None:
        # A thread that waits in accept() holds the port until the socket is shut down.
        with suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        for each in (self.listening, *self._open):
            each.close()

    def _tunnel(self, client: socket.socket) -> None:
        with suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            line, *headers = head.decode().split("\r\n")
            login = f"basic {base64.b64encode(LOGIN.encode()).decode()}"
            logins = [value.strip() for name, _, value in (each.partition(":") for each in headers) if is_login(name)]
            method, target, _ = line.split(" ", 2)
            if method != "CONNECT" or [each.replace("Basic", "basic") for each in logins] != [login]:
                self.refused.append(line)
                client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                client.close()
                return
            self.targets.append(target)
            host, _, port = target.rpartition(":")
            server = socket.create_connection((host, int(port)))
            self._open.append(server)
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            threading.Thread(target=copy, args=(server, client), daemon=True).start()
            copy(client, server)


def is_login(header: str) -> bool:
    return header.lower() == "proxy-authorization"


def copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextmanager
def proxying() -> Iterator[ConnectProxy]:
    """Runs a proxy."""
    proxy = ConnectProxy()
    threading.Thread(target=proxy.serve, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.close()
