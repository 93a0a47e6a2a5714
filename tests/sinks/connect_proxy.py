"""A real HTTP proxy on loopback: tunnels CONNECT, and records where to."""

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOGIN = "proxy-user:proxy-password"
_BASIC = f"basic {base64.b64encode(LOGIN.encode()).decode()}"


class ConnectProxy(ThreadingHTTPServer):
    """Accepts CONNECT with the right login only."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Tunnel)
        self.targets: list[str] = []
        """HOST:PORT of each tunnel."""
        self.refused: list[str] = []
        """The first line of each request that is no CONNECT with the right login."""

    @property
    def url(self) -> str:
        return f"http://{LOGIN}@127.0.0.1:{self.server_port}"


class Tunnel(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    server: ConnectProxy

    def do_CONNECT(self) -> None:
        if self.headers.get("Proxy-Authorization", "").replace("Basic", "basic") != _BASIC:
            self._refuse()
            return
        self.server.targets.append(self.path)
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port))) as server:
            self.send_response(200)
            self.end_headers()
            threading.Thread(target=copy, args=(server, self.connection), daemon=True).start()
            copy(self.connection, server)
        self.close_connection = True

    def _refuse(self) -> None:
        self.server.refused.append(self.requestline)
        self.send_response(407)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.close_connection = True

    do_GET = do_POST = _refuse

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Logs nothing."""


def copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextmanager
def proxying() -> Iterator[ConnectProxy]:
    """Runs a proxy."""
    with ConnectProxy() as proxy:
        threading.Thread(target=proxy.serve_forever, args=(0.02,), daemon=True).start()
        yield proxy
        proxy.shutdown()
