"""TLS and the token of the page, over real sockets."""

import base64
import functools
import socket
import time
from pathlib import Path

import pytest
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from flask import Blueprint, request

from connectors.errors import UsageError
from connectors.secret import Secret
from streaming.web.application import JobLiveness, health_endpoints
from streaming.web.page_access import PageAccess
from streaming.web.server import Server
from tests.unit.connectors.kafka.certificates import CertificateAuthority, authority

LOOPBACK = ("127.0.0.1", 0)
TOKEN = "canary-token-5f2c"


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    return file


def blueprints() -> list[Blueprint]:
    shown = Blueprint("shown", __name__)
    for path in ("/", "/metrics", "/api/clusters"):
        shown.get(path, endpoint=path.replace("/", "-"))(lambda: request.args.get("text", "shown"))
    return [health_endpoints(JobLiveness(last_batch_at=time.monotonic, gatherer_runs=lambda: True)), shown]


def get(server: Server, path: str, authorization: str | None = None) -> requests.Response:
    headers = {} if authorization is None else {"Authorization": authorization}
    return requests.get(f"http://127.0.0.1:{server.port}{path}", headers=headers, timeout=60)


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"any:{password}".encode()).decode()


@pytest.mark.parametrize("path", ["/", "/metrics", "/api/clusters", "/nothing", "/healthz/", "/healthz/x"])
@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", f"Token {TOKEN}", basic("wrong"), "Basic %%%", "Basic é"],
)
def test_request_without_the_token_is_refused(token_file: Path, path: str, authorization: str | None) -> None:
    encoded = None if authorization is None else authorization.encode().decode("latin-1")
    with Server(LOOPBACK, blueprints(), access=PageAccess(token=Secret(file=token_file))) as server:
        answer = get(server, path, encoded)

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Basic ")
    assert TOKEN not in answer.text


@pytest.mark.parametrize("authorization", [f"Bearer {TOKEN}", f"bearer {TOKEN}", basic(TOKEN)])
def test_request_with_the_token_is_answered(token_file: Path, authorization: str) -> None:
    with Server(LOOPBACK, blueprints(), access=PageAccess(token=Secret(file=token_file))) as server:
        for path in ("/", "/metrics", "/api/clusters"):
            assert (get(server, path, authorization).status_code, get(server, path).status_code) == (200, 401)
        for path in ("/healthz", "/readyz"):
            assert get(server, path).status_code == 200, "a kubelet cannot send a token"


def test_replaced_token_needs_no_restart_and_a_missing_file_opens_nothing(token_file: Path) -> None:
    with Server(LOOPBACK, blueprints(), access=PageAccess(token=Secret(file=token_file))) as server:
        token_file.write_text("another")
        assert get(server, "/metrics", f"Bearer {TOKEN}").status_code == 401
        assert get(server, "/metrics", "Bearer another").status_code == 200
        token_file.unlink()
        assert get(server, "/metrics", "Bearer another").status_code == 503
        assert get(server, "/healthz").status_code == 200


def test_empty_token_file_is_reported_at_the_start(token_file: Path) -> None:
    token_file.write_text("")
    with pytest.raises(UsageError, match=r"^listen_token_file: .*token must contain exactly one line"):
        Server(LOOPBACK, blueprints(), access=PageAccess(token=Secret(file=token_file)))


def test_page_is_served_with_the_certificate_and_plain_http_is_not_answered(trusted: CertificateAuthority) -> None:
    access = PageAccess(certfile=Path(trusted.issue("page")))
    with Server(LOOPBACK, blueprints(), access=access) as server:
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
            Server(LOOPBACK, blueprints(), access=PageAccess(certfile=certificate, keyfile=other_key))
    with pytest.raises(UsageError, match=r"^listen_certfile: cannot read .*missing\.pem: no such file"):
        Server(LOOPBACK, blueprints(), access=PageAccess(certfile=tmp_path / "missing.pem"))


@pytest.mark.parametrize("query", [b"at=\xff", b"\xff=1"])
def test_query_that_is_not_utf_8_is_a_bad_request_without_a_traceback(
    query: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with Server(LOOPBACK, blueprints()) as server, socket.create_connection(("127.0.0.1", server.port), 60) as client:
        client.sendall(b"GET /?" + query + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        answer = b"".join(iter(functools.partial(client.recv, 4096), b""))

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"the query is not UTF-8" in answer
    assert caplog.text == ""
