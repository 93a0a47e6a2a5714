import json
import socket
import time
import urllib.error
import urllib.request

import pytest

from connectors.errors import UsageError
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
