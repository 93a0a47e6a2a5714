"""The job's health over HTTP, and the server's check of the Host header."""

import socket
import time
from dataclasses import replace
from typing import Any

import pytest
import requests
from flask import Blueprint

from connectors.errors import UsageError
from streaming.web import server as serving
from streaming.web.application import START_S, JobLiveness, health_endpoints
from streaming.web.server import Server

LOOPBACK = ("127.0.0.1", 0)


def liveness(
    *,
    batch_ago_s: float | None = 0,
    gatherer_runs: bool = True,
    stalled_s: float | None = None,
    started_ago_s: float = 0,
) -> JobLiveness:
    return JobLiveness(
        last_batch_at=lambda: None if batch_ago_s is None else time.monotonic() - batch_ago_s,
        gatherer_runs=lambda: gatherer_runs,
        gatherer_stalled_s=lambda: stalled_s,
        since=time.monotonic() - started_ago_s,
    )


def pages() -> list[Blueprint]:
    return [health_endpoints(liveness())]


def get(server: Server, path: str, host: str | None = None) -> tuple[int, dict[str, object]]:
    headers = {} if host is None else {"Host": host}
    answer = requests.get(f"http://127.0.0.1:{server.port}{path}", headers=headers, timeout=60)
    return answer.status_code, answer.json()


STALLED = "the gatherer's event loop has not run for 5.1 s: no cluster is observed"


@pytest.mark.parametrize(
    ("given", "status", "ready", "starting"),
    [
        ({"batch_ago_s": None}, "starting", False, True),
        ({"batch_ago_s": None, "started_ago_s": START_S - 60}, "starting", False, True),
        ({"batch_ago_s": None, "started_ago_s": START_S + 60}, "no batch has completed for too long", False, False),
        ({"batch_ago_s": None, "gatherer_runs": False}, "the gatherer does not run", False, False),
        ({"batch_ago_s": None, "stalled_s": 5.1}, STALLED, False, False),
        ({}, "ok", True, False),
        ({"batch_ago_s": 1_000}, "no batch has completed for too long", True, False),
        ({"gatherer_runs": False}, "the gatherer does not run", True, False),
        ({"stalled_s": 4.9}, "ok", True, False),
        ({"stalled_s": 5.1}, STALLED, True, False),
    ],
)
def test_health_of_the_job(given: dict[str, Any], status: str, *, ready: bool, starting: bool) -> None:
    job = liveness(**given)
    alive = status in ("ok", "starting")
    with Server(LOOPBACK, [health_endpoints(job)]) as server:
        code, body = get(server, "/healthz")
        assert (code, body["status"]) == (200 if alive else 503, status)
        assert body["gatherer_stalled_seconds"] == job.gatherer_stalled_s()
        assert get(server, "/readyz") == (
            (200, {"status": "ready"}) if ready else (503, {"status": "waiting for the first batch"})
        )
    # The watchdog of /metrics must not fail before /healthz does.
    assert (job.is_alive, job.is_starting) == (alive, starting)


def test_other_pages_say_what_there_is() -> None:
    with Server(LOOPBACK, pages()) as server:
        assert get(server, "/nothing") == (404, {"status": "not found; the paths are /healthz, /readyz"})


def test_nothing_can_be_written() -> None:
    with Server(LOOPBACK, pages()) as server:
        answer = requests.post(f"http://127.0.0.1:{server.port}/healthz", timeout=60)
        assert (answer.status_code, answer.json()) == (405, {"status": "method not allowed"})


@pytest.mark.parametrize(
    ("hosts", "code"),
    [
        (["127.0.0.1:9847", "localhost", "LOCALHOST:80", "[::1]:9847", "10.1.2.3", "watch.example:443"], 200),
        (["evil.test", "evil.test:9847", "127.0.0.1.evil.test", "localhost.evil.test"], 421),
    ],
)
def test_only_an_address_localhost_and_the_host_of_page_url_are_answered(hosts: list[str], code: int) -> None:
    with Server(LOOPBACK, pages(), page_url=lambda: "https://Watch.example/kafka/") as server:
        for host in hosts:
            assert get(server, "/readyz", host)[0] == code


def test_address_in_use_is_reported_in_one_sentence() -> None:
    with socket.create_server(LOOPBACK) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"--listen 127\.0\.0\.1:{port}: address already in use; choose another"):
            Server(("127.0.0.1", port), pages())


def test_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "CLIENT_S", 1)
    with (
        Server(LOOPBACK, pages()) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as silent,
    ):
        assert silent.recv(1) == b""


def test_failing_page_prints_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    def fails() -> float | None:
        raise RuntimeError("the page failed")

    job = replace(liveness(), last_batch_at=fails)
    with Server(LOOPBACK, [health_endpoints(job)]) as server:
        assert get(server, "/readyz") == (500, {"status": "internal server error"})
    assert "Traceback" not in capfd.readouterr().err
