import json
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest

from connectors.errors import UsageError
from streaming import health
from streaming.health import HealthServer


def get(server: HealthServer, path: str) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=5) as page:
            return page.status, json.load(page)
    except urllib.error.HTTPError as problem:
        with problem:
            return problem.code, json.load(problem)


def test_before_the_first_batch_it_is_alive_but_not_ready() -> None:
    with HealthServer(("127.0.0.1", 0), lambda: None, lambda: True) as server:
        assert get(server, "/healthz")[0] == 200
        assert get(server, "/readyz") == (503, {"status": "waiting for the first batch"})


def test_after_a_batch_it_is_ready() -> None:
    now = time.monotonic()
    with HealthServer(("127.0.0.1", 0), lambda: now, lambda: True) as server:
        assert get(server, "/healthz")[1]["status"] == "ok"
        assert get(server, "/readyz") == (200, {"status": "ready"})


def test_a_job_that_hangs_is_not_well() -> None:
    long_ago = time.monotonic() - 1_000
    with HealthServer(("127.0.0.1", 0), lambda: long_ago, lambda: True) as server:
        assert get(server, "/healthz")[0] == 503


def test_a_job_that_gathers_nothing_is_not_well() -> None:
    now = time.monotonic()
    with HealthServer(("127.0.0.1", 0), lambda: now, lambda: False) as server:
        status, body = get(server, "/healthz")
        assert (status, body["status"]) == (503, "the gatherer does not run")


def test_other_pages_say_what_there_is() -> None:
    with HealthServer(("127.0.0.1", 0), lambda: None, lambda: True) as server:
        assert get(server, "/") == (404, {"status": "there are /healthz and /readyz here"})


def test_an_address_in_use_is_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"--listen 127\.0\.0\.1:{port}: address already in use; choose another"):
            HealthServer(("127.0.0.1", port), lambda: None, lambda: True)


def test_a_client_that_says_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "CLIENT_S", 0.2)
    with (
        HealthServer(("127.0.0.1", 0), lambda: None, lambda: True) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=10) as silent,
    ):
        assert silent.recv(1) == b""


def test_a_client_that_goes_away_is_no_traceback_on_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    asked = threading.Event()

    def last_batch_at() -> float | None:
        asked.set()
        raise ConnectionResetError

    with (
        HealthServer(("127.0.0.1", 0), last_batch_at, lambda: True) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=10) as client,
    ):
        client.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
        assert client.recv(1) == b""
    assert asked.is_set()
    assert "Traceback" not in capfd.readouterr().err
