"""The job's health over HTTP, and the server's check of the Host header."""

import socket
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
import requests
from flask import Blueprint

from connectors.errors import UsageError
from streaming.web import server as serving
from streaming.web.application import START_S, JobLiveness, health_endpoints
from streaming.web.server import Server

LOOPBACK = ("127.0.0.1", 0)


def liveness(
    last_batch_at: Callable[[], float | None] = time.monotonic,
    *,
    gatherer_runs: bool = True,
    stalled_s: float | None = None,
) -> JobLiveness:
    return JobLiveness(
        last_batch_at=last_batch_at, gatherer_runs=lambda: gatherer_runs, gatherer_stalled_s=lambda: stalled_s
    )


def pages(last_batch_at: Callable[[], float | None] = time.monotonic, *, gatherer_runs: bool = True) -> list[Blueprint]:
    return [health_endpoints(liveness(last_batch_at, gatherer_runs=gatherer_runs))]


def get(server: Server, path: str, host: str | None = None) -> tuple[int, dict[str, object]]:
    headers = {} if host is None else {"Host": host}
    answer = requests.get(f"http://127.0.0.1:{server.port}{path}", headers=headers, timeout=60)
    return answer.status_code, answer.json()


def test_job_before_its_first_batch_is_alive_but_not_ready() -> None:
    with Server(LOOPBACK, pages(lambda: None)) as server:
        status, body = get(server, "/healthz")
        assert (status, body["status"]) == (200, "starting")
        assert get(server, "/readyz") == (503, {"status": "waiting for the first batch"})


@pytest.mark.parametrize(("age_s", "starting"), [(0, True), (START_S - 60, True), (START_S + 60, False)])
def test_job_may_start_for_a_quarter_of_an_hour(age_s: float, starting: bool) -> None:
    job = replace(liveness(lambda: None), since=time.monotonic() - age_s)
    with Server(LOOPBACK, [health_endpoints(job)]) as server:
        assert get(server, "/healthz")[0] == (200 if starting else 503)
    assert job.is_starting == starting
    assert job.is_alive == starting, "the watchdog of /metrics must not fail before /healthz does"


def test_job_is_not_starting_without_a_gatherer_or_after_a_batch() -> None:
    assert not liveness(lambda: None, gatherer_runs=False).is_starting
    assert not liveness(lambda: None, stalled_s=40.0).is_starting
    assert not liveness().is_starting


def test_job_after_a_batch_is_ready() -> None:
    with Server(LOOPBACK, pages()) as server:
        assert get(server, "/healthz")[1]["status"] == "ok"
        assert get(server, "/readyz") == (200, {"status": "ready"})


def test_job_without_recent_batches_is_not_healthy() -> None:
    with Server(LOOPBACK, pages(lambda: time.monotonic() - 1_000)) as server:
        assert get(server, "/healthz")[0] == 503


def test_job_without_a_gatherer_is_not_healthy() -> None:
    with Server(LOOPBACK, pages(gatherer_runs=False)) as server:
        status, body = get(server, "/healthz")
        assert (status, body["status"]) == (503, "the gatherer does not run")


@pytest.mark.parametrize(("stalled_s", "healthy"), [(None, True), (4.9, True), (5.1, False), (40.0, False)])
def test_job_whose_gatherer_does_not_run_its_event_loop_is_not_healthy(stalled_s: float | None, healthy: bool) -> None:
    job = liveness(stalled_s=stalled_s)
    with Server(LOOPBACK, [health_endpoints(job)]) as server:
        status, body = get(server, "/healthz")
    assert (status, job.is_alive) == (200 if healthy else 503, healthy)
    if not healthy:
        assert body["status"] == f"the gatherer's event loop has not run for {stalled_s} s: no cluster is observed"
    assert body["gatherer_stalled_seconds"] == stalled_s


def test_other_pages_say_what_there_is() -> None:
    with Server(LOOPBACK, pages()) as server:
        assert get(server, "/nothing") == (404, {"status": "not found; the paths are /healthz, /readyz"})


def test_nothing_can_be_written() -> None:
    with Server(LOOPBACK, pages()) as server:
        answer = requests.post(f"http://127.0.0.1:{server.port}/healthz", timeout=60)
        assert (answer.status_code, answer.json()) == (405, {"status": "method not allowed"})


@pytest.mark.parametrize("host", ["127.0.0.1:9847", "localhost", "LOCALHOST:80", "[::1]:9847", "10.1.2.3"])
def test_ip_address_and_localhost_are_answered(host: str) -> None:
    with Server(LOOPBACK, pages()) as server:
        assert get(server, "/readyz", host)[0] == 200


@pytest.mark.parametrize("host", ["evil.test", "evil.test:9847", "127.0.0.1.evil.test", "localhost.evil.test"])
def test_unknown_host_is_refused_with_421(host: str) -> None:
    with Server(LOOPBACK, pages()) as server:
        status, body = get(server, "/readyz", host)
        assert (status, body["status"]) == (
            421,
            "unknown host: use an IP address, or the host of --listen or page_url",
        )


@pytest.mark.parametrize("host", ["watch.example", "WATCH.example:443"])
def test_host_of_page_url_is_answered(host: str) -> None:
    with Server(LOOPBACK, pages(), page_url=lambda: "https://Watch.example/kafka/") as server:
        assert get(server, "/readyz", host)[0] == 200
        assert get(server, "/readyz", "evil.test")[0] == 421


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

    with Server(LOOPBACK, pages(fails)) as server:
        assert get(server, "/readyz") == (500, {"status": "internal server error"})
    assert "Traceback" not in capfd.readouterr().err
