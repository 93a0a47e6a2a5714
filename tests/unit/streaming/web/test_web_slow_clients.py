"""Slow and hostile clients of the page: they are closed, and /healthz answers meanwhile."""

import functools
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests
from flask import Blueprint

from streaming.web import server as serving
from streaming.web.application import JobLiveness, health_endpoints
from streaming.web.server import Server
from tests.eventually import eventually

LOOPBACK = ("127.0.0.1", 0)
SLOW_CLIENTS = 500
PARTIAL_HEADER = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "


def health() -> Blueprint:
    return health_endpoints(JobLiveness(last_batch_at=time.monotonic, gatherer_runs=lambda: True))


def page(name: str, body: object) -> Blueprint:
    blueprint = Blueprint(name, __name__)
    blueprint.get("/")(body)  # type: ignore[type-var]
    return blueprint


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(LOOPBACK, [health()]) as running:
        yield running


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def healthz(server: Server) -> int:
    return requests.get(f"http://127.0.0.1:{server.port}/healthz", timeout=30).status_code


def all_of(client: socket.socket) -> bytes:
    return b"".join(iter(functools.partial(client.recv, 4096), b""))


def is_closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_health_answers_beside_500_slow_clients_and_most_of_them_are_closed(server: Server) -> None:
    before = open_files()
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(server)) for _ in range(SLOW_CLIENTS)]
        for client in clients:
            client.sendall(PARTIAL_HEADER)

        assert healthz(server) == 200

        def bounded() -> None:
            still_open = sum(not is_closed(client) for client in clients)
            assert still_open <= serving.CONNECTION_LIMIT
            # Each client has a descriptor in this process as well.
            assert open_files() - before <= SLOW_CLIENTS + serving.CONNECTION_LIMIT

        eventually(bounded, within_s=10)
        assert healthz(server) == 200


@pytest.mark.parametrize(
    "begun",
    [PARTIAL_HEADER, b"POST /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n"],
    ids=["header", "body"],
)
def test_client_that_sends_its_request_byte_by_byte_is_closed(monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    monkeypatch.setattr(serving, "CLIENT_S", 1)
    with Server(LOOPBACK, [health()]) as server, connect(server) as slow:
        slow.sendall(begun)

        def closed() -> None:
            try:
                slow.send(b"a")
            except ConnectionError:
                return
            raise AssertionError("the server still reads the request")

        eventually(closed, within_s=10)


def test_client_that_does_not_read_its_answer_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "CLIENT_S", 1)
    monkeypatch.setattr(serving, "REQUEST_S", 2)
    size = 64 << 20
    with Server(LOOPBACK, [health(), page("large", lambda: b"x" * size)]) as server:
        before = open_files()
        with connect(server) as slow:
            # The client's descriptor and the server's.
            eventually(lambda: open_files() == before + 2, within_s=10)
            slow.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            eventually(lambda: open_files() == before + 1, within_s=10)


def test_health_answers_while_every_page_hangs() -> None:
    released = threading.Event()

    def hangs() -> str:
        released.wait(60)
        return "released"

    with Server(LOOPBACK, [health(), page("hanging", hangs)]) as server, ExitStack() as stack:
        stack.callback(released.set)
        clients = [stack.enter_context(connect(server)) for _ in range(20)]
        for client in clients:
            client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")

        assert healthz(server) == 200
        released.set()
        assert [all_of(client)[-8:] for client in clients] == [b"released"] * 20


def test_request_that_is_not_http_is_closed_and_not_logged(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "REQUEST_S", 1)
    for garbage in (os.urandom(64) + b"\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", b"\x16\x03\x01\x00\r\n\r\n"):
        with Server(LOOPBACK, [health()]) as server, connect(server) as client:
            client.sendall(garbage)
            answer = all_of(client)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")
