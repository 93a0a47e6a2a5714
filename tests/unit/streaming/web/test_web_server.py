"""The server of `--listen`: health of the job, Host header, token, TLS; slow and hostile clients are closed."""

import base64
import functools
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from flask import Blueprint, request

from connectors.errors import UsageError
from connectors.settings.secret import Secret
from streaming.web import application
from streaming.web import server as serving
from streaming.web.application import START_S, JobHealth, health_endpoints
from streaming.web.page_access import PageAccess
from streaming.web.server import Server
from tests.eventually import eventually
from tests.unit.connectors.kafka.certificates import CertificateAuthority, authority

LOOPBACK = ("127.0.0.1", 0)
GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
TOKEN = "canary-token-5f2c"
PATHS = ("/", "/metrics", "/api/clusters")


def health(
    *,
    batch_ago_s: float | None = 0,
    evaluated_ago_s: float | None = None,
    gatherer_runs: bool = True,
    stalled_s: float | None = None,
    started_ago_s: float = 0,
) -> JobHealth:
    ago_s = batch_ago_s if evaluated_ago_s is None else evaluated_ago_s
    return JobHealth(
        last_batch_at=None if batch_ago_s is None else time.monotonic() - batch_ago_s,
        last_evaluated_at=None if ago_s is None else time.monotonic() - ago_s,
        gatherer_runs=gatherer_runs,
        gatherer_stalled_s=stalled_s,
        since=time.monotonic() - started_ago_s,
    )


def serving_pages(
    page: Callable[[], str | bytes] = lambda: request.args.get("text", "shown"), **options: Any
) -> Server:
    """Returns a server with the health of a healthy job and some pages."""
    pages = Blueprint("pages", __name__)
    for path in PATHS:
        pages.get(path, endpoint=path.replace("/", "-"))(page)
    return Server(LOOPBACK, [health_endpoints(health), pages], **options)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving_pages() as running:
        yield running


def get(server: Server, path: str, method: str = "GET", **headers: str | None) -> requests.Response:
    given = {name: value for name, value in headers.items() if value is not None}
    return requests.request(method, f"http://127.0.0.1:{server.port}{path}", headers=given, timeout=60)


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def all_of(client: socket.socket) -> bytes:
    return b"".join(iter(functools.partial(client.recv, 4096), b""))


# ---- the job's health, and what else is answered

NOTHING = "nothing has been evaluated for too long"
STALLED = "the gatherer's event loop has not run for 5.1 s: no cluster is observed"


@pytest.mark.parametrize(
    ("given", "status", "ready", "starting"),
    [
        ({"batch_ago_s": None}, "starting", False, True),
        ({"batch_ago_s": None, "started_ago_s": START_S - 60}, "starting", False, True),
        ({"batch_ago_s": None, "started_ago_s": START_S + 60}, NOTHING, False, False),
        ({"batch_ago_s": None, "gatherer_runs": False}, "the gatherer does not run", False, False),
        ({"batch_ago_s": None, "stalled_s": 5.1}, STALLED, False, False),
        ({}, "ok", True, False),
        ({"batch_ago_s": 1_000}, NOTHING, True, False),
        # The understudy evaluates.
        ({"batch_ago_s": 1_000, "evaluated_ago_s": 10}, "ok", True, False),
        ({"batch_ago_s": None, "started_ago_s": START_S + 60, "evaluated_ago_s": 10}, "starting", False, True),
        ({"gatherer_runs": False}, "the gatherer does not run", True, False),
        ({"stalled_s": 4.9}, "ok", True, False),
        ({"stalled_s": 5.1}, STALLED, True, False),
    ],
)
def test_health_of_the_job(given: dict[str, Any], status: str, *, ready: bool, starting: bool) -> None:
    job = health(**given)
    alive = status in ("ok", "starting")
    with Server(LOOPBACK, [health_endpoints(lambda: job)]) as server:
        answers = {path: get(server, path) for path in ("/healthz", "/readyz")}
    shown = answers["/healthz"].json()
    assert (answers["/healthz"].status_code, shown["status"]) == (200 if alive else 503, status)
    assert shown["gatherer_stalled_seconds"] == job.gatherer_stalled_s
    assert (answers["/readyz"].status_code, answers["/readyz"].json()) == (
        (200, {"status": "ready"}) if ready else (503, {"status": "waiting for the first batch"})
    )
    # The watchdog of /metrics must not fail before /healthz does.
    assert (job.is_alive, job.is_starting) == (alive, starting)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"batch_ago_s": 60}, 200),
        ({"batch_ago_s": START_S + 1}, 503),
        ({"batch_ago_s": None, "started_ago_s": 60}, 200),
        ({"batch_ago_s": None, "started_ago_s": START_S + 1}, 503),
        ({"batch_ago_s": 60, "gatherer_runs": False}, 503),
    ],
)
def test_a_job_that_waits_says_for_what_and_is_not_restarted_at_once(given: dict[str, Any], code: int) -> None:
    job = replace(health(**given), waits_for={"store": 12.34})
    with Server(LOOPBACK, [health_endpoints(lambda: job)]) as server:
        answer = get(server, "/healthz")
    assert (answer.status_code, answer.json()["waits_for_seconds"]) == (code, {"store": 12.3})
    assert code == 503 or answer.json()["status"] == "waiting for store"


@pytest.mark.parametrize(("evaluated_ago_s", "code"), [(10, 200), (91, 503)])
def test_a_job_without_spark_is_restarted_unless_its_understudy_evaluates(evaluated_ago_s: float, code: int) -> None:
    job = replace(health(batch_ago_s=300, evaluated_ago_s=evaluated_ago_s), waits_for={"spark": 240.0})
    with Server(LOOPBACK, [health_endpoints(lambda: job)]) as server:
        assert get(server, "/healthz").status_code == code


def test_the_pages_of_a_start_are_replaced_by_those_of_the_job() -> None:
    with serving_pages() as server:
        before = get(server, "/?text=before").text
        other = Blueprint("pages", __name__)
        other.get("/")(lambda: "the job")
        server.show([health_endpoints(health), other])
        assert (before, get(server, "/").text) == ("before", "the job")


def test_a_job_whose_disk_is_full_is_not_ready_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "full_disk", lambda folder: f"the disk of {folder} is full")
    job = replace(health(), folder=Path("/var/lib/kraftwatch"))
    with Server(LOOPBACK, [health_endpoints(lambda: job)]) as server:
        answer = get(server, "/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "the disk of /var/lib/kraftwatch is full"})


@pytest.mark.parametrize(
    ("method", "path", "answer"),
    [
        ("GET", "/nothing", (404, "not found; the paths are /, /api/clusters, /healthz, /metrics, /readyz")),
        ("POST", "/healthz", (405, "method not allowed")),
    ],
)
def test_request_that_cannot_be_answered_is_refused_as_json(
    server: Server, method: str, path: str, answer: tuple[int, str]
) -> None:
    refused = get(server, path, method)
    assert (refused.status_code, refused.json()["status"]) == answer


def test_failing_page_prints_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    def fails() -> JobHealth:
        raise RuntimeError("the page failed")

    with Server(LOOPBACK, [health_endpoints(fails)]) as server:
        answer = get(server, "/readyz")
    assert (answer.status_code, answer.json()) == (500, {"status": "internal server error"})
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("hosts", "code"),
    [
        (["127.0.0.1:9847", "localhost", "LOCALHOST:80", "[::1]:9847", "10.1.2.3", "watch.example:443"], 200),
        (["evil.test", "evil.test:9847", "127.0.0.1.evil.test", "localhost.evil.test"], 421),
    ],
)
def test_only_an_address_localhost_and_the_host_of_page_url_are_answered(hosts: list[str], code: int) -> None:
    with serving_pages(page_url=lambda: "https://Watch.example/kafka/") as server:
        for host in hosts:
            assert get(server, "/readyz", Host=host).status_code == code


def test_address_in_use_is_reported_in_one_sentence() -> None:
    with socket.create_server(LOOPBACK) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"--listen 127\.0\.0\.1:{port}: address already in use; choose another"):
            Server(("127.0.0.1", port), [])


# ---- token and TLS


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    return file


@pytest.fixture
def guarded(token_file: Path) -> Iterator[Server]:
    with serving_pages(access=PageAccess(token=Secret(file=token_file))) as running:
        yield running


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"any:{password}".encode()).decode()


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", f"Token {TOKEN}", basic("wrong"), "Basic %%%", "Basic é"],
)
def test_request_without_the_token_is_refused(guarded: Server, authorization: str | None) -> None:
    encoded = None if authorization is None else authorization.encode().decode("latin-1")
    for path in (*PATHS, "/nothing", "/healthz/", "/healthz/x"):
        answer = get(guarded, path, Authorization=encoded)
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"].startswith("Basic ")
        assert TOKEN not in answer.text


@pytest.mark.parametrize("authorization", [f"Bearer {TOKEN}", f"bearer {TOKEN}", basic(TOKEN)])
def test_request_with_the_token_is_answered(guarded: Server, authorization: str) -> None:
    assert {get(guarded, path, Authorization=authorization).status_code for path in PATHS} == {200}
    for path in ("/healthz", "/readyz"):
        assert get(guarded, path).status_code == 200, "a kubelet cannot send a token"


def test_replaced_token_needs_no_restart_and_a_missing_file_opens_nothing(guarded: Server, token_file: Path) -> None:
    token_file.write_text("another")
    assert get(guarded, "/metrics", Authorization=f"Bearer {TOKEN}").status_code == 401
    assert get(guarded, "/metrics", Authorization="Bearer another").status_code == 200
    token_file.unlink()
    assert get(guarded, "/metrics", Authorization="Bearer another").status_code == 503
    assert get(guarded, "/healthz").status_code == 200


@pytest.mark.parametrize("authorization", ["Bearer tökéà", basic("tökéà")])
def test_a_token_is_compared_by_its_bytes_in_utf_8(guarded: Server, token_file: Path, authorization: str) -> None:
    token_file.write_text("tökéà", encoding="utf-8")
    assert get(guarded, "/metrics", Authorization=authorization.encode().decode("latin-1")).status_code == 200


def test_empty_token_file_is_reported_at_the_start(token_file: Path) -> None:
    token_file.write_text("")
    with pytest.raises(UsageError, match=r"^listen_token_file: .*token must contain exactly one line"):
        serving_pages(access=PageAccess(token=Secret(file=token_file)))


def test_token_that_reads_is_not_the_one_that_changes(token_file: Path) -> None:
    token = Secret(file=token_file)
    with pytest.raises(UsageError, match=r"^listen_read_token_file: has the token of listen_token_file"):
        serving_pages(access=PageAccess(token=token, read_token=token))


def test_page_is_served_with_the_certificate_and_plain_http_is_not_answered(trusted: CertificateAuthority) -> None:
    with serving_pages(access=PageAccess(certfile=Path(trusted.issue("page")))) as server:
        answer = requests.get(f"https://localhost:{server.port}/healthz", verify=trusted.file, timeout=60)
        assert answer.json()["status"] == "ok"
        with pytest.raises(requests.ConnectionError):
            get(server, "/healthz")


def test_unusable_certificate_is_one_sentence(trusted: CertificateAuthority, tmp_path: Path) -> None:
    certificate = Path(trusted.issue("page"))
    other_key = tmp_path / "other.key"
    key = ec.generate_private_key(ec.SECP256R1())
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    for encryption in (serialization.BestAvailableEncryption(b"secret"), serialization.NoEncryption()):
        other_key.write_bytes(key.private_bytes(pem, pkcs8, encryption))
        with pytest.raises(UsageError, match=r"^listen_certfile: .* must hold a PEM certificate and its unencrypted"):
            serving_pages(access=PageAccess(certfile=certificate, keyfile=other_key))
    with pytest.raises(UsageError, match=r"^listen_certfile: cannot read .*missing\.pem: no such file"):
        serving_pages(access=PageAccess(certfile=tmp_path / "missing.pem"))


# ---- slow and hostile clients

SLOW_CLIENTS = 500
PARTIAL_HEADER = GET + b"X-Slow: "


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

        assert get(server, "/healthz").status_code == 200

        def bounded() -> None:
            still_open = sum(not is_closed(client) for client in clients)
            assert still_open <= serving.CONNECTION_LIMIT
            # Each client has a descriptor in this process as well.
            assert open_files() - before <= SLOW_CLIENTS + serving.CONNECTION_LIMIT

        eventually(bounded, within_s=10)
        assert get(server, "/healthz").status_code == 200


@pytest.mark.parametrize(
    "begun",
    [b"", PARTIAL_HEADER, b"POST /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n"],
    ids=["nothing", "header", "body"],
)
def test_client_that_sends_its_request_byte_by_byte_is_closed(monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    monkeypatch.setattr(serving, "CLIENT_S", 1)
    with serving_pages() as server, connect(server) as slow:
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
    with serving_pages(lambda: b"x" * (64 << 20)) as server:
        before = open_files()
        with connect(server) as slow:
            # The client's descriptor and the server's.
            eventually(lambda: open_files() == before + 2, within_s=10)
            slow.sendall(GET + b"\r\n")
            eventually(lambda: open_files() == before + 1, within_s=10)


def test_health_answers_while_every_page_hangs() -> None:
    released = threading.Event()

    def hangs() -> str:
        released.wait(60)
        return "released"

    with serving_pages(hangs) as server, ExitStack() as stack:
        stack.callback(released.set)
        clients = [stack.enter_context(connect(server)) for _ in range(20)]
        for client in clients:
            client.sendall(GET + b"\r\n")

        assert get(server, "/healthz").status_code == 200
        released.set()
        assert [all_of(client)[-8:] for client in clients] == [b"released"] * 20


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (os.urandom(64) + b"\r\n\r\n", ""),
        (b"GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", ""),
        (b"\x16\x03\x01\x00\r\n\r\n", ""),
        (GET.replace(b"/", b"/?at=\xff", 1) + b"\r\n", "HTTP/1.1 400 .*the query is not UTF-8"),
        (GET.replace(b"/", b"/?\xff=1", 1) + b"\r\n", "HTTP/1.1 400 .*the query is not UTF-8"),
    ],
    ids=["random bytes", "port is no number", "TLS", "value is not UTF-8", "name is not UTF-8"],
)
def test_request_that_is_no_valid_http_is_refused_and_not_logged(
    sent: bytes,
    answer: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "REQUEST_S", 1)
    with serving_pages() as server, connect(server) as client:
        client.sendall(sent)
        got = all_of(client).decode()
    assert re.match(answer or "HTTP/1.1 4|$", got, re.DOTALL)
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")
