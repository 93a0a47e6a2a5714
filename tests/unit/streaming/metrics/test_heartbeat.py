"""The dead-man heartbeat against a real HTTP server."""

import errno
import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.settings.secret import Secret
from connectors.sinks.http_request import PAGE
from streaming.config import checked
from streaming.metrics import heartbeat, periodic
from streaming.metrics.heartbeat import Heartbeat, HeartbeatSchedule, request_url
from tests.eventually import eventually
from tests.present import present
from tests.sinks.server import HttpDouble, HttpReply, serving

SECRET = "4f1c2a90-do-not-print-me"


@pytest.fixture
def service() -> Iterator[HttpDouble]:
    with serving() as service:
        yield service


def url_of(service: HttpDouble) -> str:
    return f"{service.url}/ping/{SECRET}"


def paths(service: HttpDouble) -> list[str]:
    return [request.path for request in service.requests]


def schedule(service: HttpDouble, every_s: float = 0.02) -> HeartbeatSchedule:
    return HeartbeatSchedule(url=Secret(text=url_of(service)), every_s=every_s)


def test_heartbeats_are_sent_while_the_job_is_healthy_and_has_a_schedule(service: HttpDouble) -> None:
    now: list[HeartbeatSchedule | None] = [None]
    with Heartbeat(lambda: now[0], is_healthy=lambda: True) as heart:
        assert heart.counts is None
        now[0] = schedule(service)

        def several() -> None:
            counts = present(heart.counts)
            assert (counts.sent > 2, counts.failed, counts.last_sent_at_ms is not None) == (True, 0, True)

        eventually(several, within_s=20)
    assert set(paths(service)) == {f"/ping/{SECRET}"}


def test_no_heartbeat_is_sent_while_the_job_is_not_healthy(service: HttpDouble) -> None:
    checked_once, healthy = threading.Event(), threading.Event()

    def is_healthy() -> bool:
        checked_once.set()
        return healthy.is_set()

    with Heartbeat(lambda: schedule(service), is_healthy=is_healthy):
        assert checked_once.wait(60)
        assert service.requests == []
        healthy.set()
        eventually(lambda: service.requests != [], within_s=20)


def test_url_is_requested_only_once_per_interval(service: HttpDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic, "CHECK_EVERY_S", 0.01)
    checks = threading.Semaphore(0)

    def hourly() -> HeartbeatSchedule:
        checks.release()
        return schedule(service, every_s=3_600)

    with Heartbeat(hourly, is_healthy=lambda: True):
        for _ in range(4):
            assert checks.acquire(timeout=60)
    assert len(service.requests) == 1


def test_failing_url_is_counted_and_logged_once_without_the_url(
    service: HttpDouble, caplog: pytest.LogCaptureFixture
) -> None:
    service.behave = lambda _: HttpReply(status=404)
    with (
        caplog.at_level(logging.DEBUG, logger="streaming"),
        Heartbeat(lambda: schedule(service), is_healthy=lambda: True) as heart,
    ):
        eventually(lambda: present(heart.counts).failed > 2, within_s=20)
    messages = [record.getMessage() for record in caplog.records if record.name == "streaming.metrics.heartbeat"]
    assert messages == ["The heartbeat failed and will be sent again: the service answered 404"]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (HttpReply(status=204), None),
        (HttpReply(body=b"OK", headers={"Content-Type": "text/html"}), None),
        (HttpReply(body=b"<html>Log in", headers={"Content-Type": "text/html"}), PAGE),
        (HttpReply(status=304), "the service answered 304"),
        (HttpReply(status=103), "the service answered 103"),
    ],
    ids=["no content", "text", "page", "304", "103"],
)
def test_answer_of_a_proxy_is_no_heartbeat(service: HttpDouble, reply: HttpReply, reason: str | None) -> None:
    service.behave = lambda _: reply
    assert request_url(Secret(text=url_of(service))) == reason


@pytest.mark.parametrize(
    "url",
    [
        f"http://127.0.0.1:1/{SECRET}",
        f"http://no-such-host.invalid/{SECRET}",
        f"http://[::{SECRET}",
        f"nonsense/{SECRET}",
    ],
    ids=["refused", "no such name", "no address", "no URL"],
)
def test_unreachable_url_has_a_reason_without_a_part_of_the_url(url: str) -> None:
    why = present(request_url(Secret(text=url)))
    assert SECRET not in why
    assert "no-such" not in why


def test_url_is_read_from_a_file(service: HttpDouble, tmp_path: Path) -> None:
    file = tmp_path / "url"
    assert "no such file" in present(request_url(Secret(file=file)))
    file.write_text(url_of(service) + "\n")
    assert request_url(Secret(file=file)) is None
    assert paths(service) == [f"/ping/{SECRET}"]


def configured(**heartbeat: object) -> HeartbeatSchedule | None:
    clusters = [{"name": "prod", "bootstrap": ["c1:9093"]}]
    section = checked({"clusters": clusters, "heartbeat": heartbeat}, "test").heartbeat
    return None if section is None else section.schedule()


def test_configuration_takes_a_url_or_its_file() -> None:
    assert configured(url=f"https://hc.test/{SECRET}", every="5m") == HeartbeatSchedule(
        url=Secret(text=f"https://hc.test/{SECRET}"), every_s=300
    )
    assert configured(url={"file": "/run/secrets/beat"}) == HeartbeatSchedule(
        url=Secret(file=Path("/run/secrets/beat")), every_s=60
    )


def test_a_connection_that_is_reset_while_it_is_made_is_a_failure(
    service: HttpDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a server that ends just then; urllib3 reads from such a connection."""

    def reset(*_: object) -> None:
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")

    monkeypatch.setattr(socket.socket, "connect", reset)
    assert request_url(Secret(text=url_of(service))) == "the connection was closed before the response"


def test_an_error_that_nobody_expects_ends_no_heartbeats(service: HttpDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Secret] = []

    def unexpected(url: Secret) -> str | None:
        calls.append(url)
        raise AttributeError(SECRET)

    monkeypatch.setattr(heartbeat, "request_url", unexpected)
    with Heartbeat(lambda: schedule(service), is_healthy=lambda: True) as heart:
        eventually(lambda: len(calls) > 2, within_s=20)
        assert present(heart.counts).failed >= 2
