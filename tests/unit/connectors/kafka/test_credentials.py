"""Credential files: re-read for each connection; an unusable file is named in one sentence."""

import base64
import json
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from connectors.errors import ObservationError
from connectors.kafka.credentials import (
    TokenFile,
    certificate_expires_at,
    sasl_password,
    tls_context,
    token_expires_at,
    with_expiry,
)
from rules.model.monitoring import Reason
from tests.unit.connectors.kafka.certificates import CertificateAuthority, authority

KEY_PASSWORD = "secret-password"


@pytest.fixture
def ca(tmp_path: Path) -> CertificateAuthority:
    return authority(tmp_path / "ca")


def with_encrypted_key(file: str) -> str:
    """Returns a file with the same certificate and the key encrypted."""
    content = Path(file).read_bytes()
    key = serialization.load_pem_private_key(content, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(KEY_PASSWORD.encode()),
    )
    end = b"-----END PRIVATE KEY-----\n"
    path = Path(file).with_suffix(".locked")
    path.write_bytes(encrypted + content.partition(end)[2])
    return str(path)


def token(claims: object) -> str:
    return ".".join(base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in ({}, claims, {}))


def test_encrypted_key_is_read_with_its_password_and_never_prompts(ca: CertificateAuthority, tmp_path: Path) -> None:
    options = {"ssl_cafile": ca.file, "ssl_certfile": with_encrypted_key(ca.issue("client"))}
    file = tmp_path / "key-password"
    file.write_text(KEY_PASSWORD + "\n")
    tls_context({**options, "ssl_password_file": str(file)})
    tls_context({**options, "ssl_password": KEY_PASSWORD})
    with pytest.raises(ObservationError, match=r"client.locked is encrypted and ssl_password is missing") as without:
        tls_context(options)
    with pytest.raises(ObservationError, match="is encrypted and ssl_password does not decrypt it") as wrong:
        tls_context({**options, "ssl_password": KEY_PASSWORD[1:]})
    file.unlink()
    with pytest.raises(ObservationError, match=r"ssl_password: cannot read .*key-password") as missing:
        tls_context({**options, "ssl_password_file": str(file)})
    for problem in (without, wrong, missing):
        assert problem.value.reason is Reason.TLS_FAILED
        assert KEY_PASSWORD[1:] not in str(problem.value)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("ssl_cafile", "holds no certificate that can be read"),
        ("ssl_crlfile", "holds no revocation list that can be read"),
        ("ssl_certfile", "cannot be read as PEM"),
    ],
)
def test_file_with_invalid_content_is_named(ca: CertificateAuthority, tmp_path: Path, name: str, sentence: str) -> None:
    file = tmp_path / "empty.pem"
    file.write_text("nothing of the kind\n")
    with pytest.raises(ObservationError, match=rf"{name} \S+empty.pem.* {sentence}") as problem:
        tls_context({"ssl_cafile": ca.file, name: str(file)})
    assert problem.value.reason is Reason.TLS_FAILED
    file.unlink()
    with pytest.raises(ObservationError, match=rf"{name} \S+empty.pem cannot be read: No such file"):
        tls_context({"ssl_cafile": ca.file, name: str(file)})


def test_host_name_is_verified_unless_disabled(ca: CertificateAuthority) -> None:
    assert tls_context({"ssl_cafile": ca.file}).check_hostname
    without_host_check = tls_context({"ssl_cafile": ca.file, "ssl_check_hostname": False})
    assert (without_host_check.check_hostname, without_host_check.verify_mode) == (False, ssl.CERT_REQUIRED)


def test_password_and_token_files_are_read_at_each_login(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    for text in ("first", "second"):
        file.write_text(text + "\n")
        assert sasl_password({"sasl_plain_password_file": str(file)}) == {"sasl_plain_password": text}
        assert TokenFile(str(file)).token() == text
    file.write_text("")
    for read in (lambda: sasl_password({"sasl_plain_password_file": str(file)}), TokenFile(str(file)).token):
        with pytest.raises(ObservationError, match="secret must contain exactly one line") as problem:
            read()
        assert problem.value.reason is Reason.NOT_AUTHENTICATED


def test_rejected_login_names_the_expired_credential(ca: CertificateAuthority, tmp_path: Path) -> None:
    refused = ObservationError(Reason.NOT_AUTHENTICATED, "the node rejected the login")
    rejected = ObservationError(Reason.TLS_FAILED, "the node rejected the client certificate (unknown CA, or expired)")
    node_expired = ObservationError(Reason.TLS_FAILED, "the node's certificate has expired")
    file = tmp_path / "token"

    file.write_text(token({"exp": 1_000_000_000}))
    old = {"sasl_oauth_token_file": str(file), "ssl_certfile": ca.issue("old", from_day=-3, to_day=-2)}
    assert with_expiry(refused, old).detail == f"sasl_oauth_token_file {file} has expired (2001-09-09 01:46:40 UTC)"
    assert "old.pem has expired (" in with_expiry(rejected, old).detail
    assert with_expiry(node_expired, old) is node_expired

    file.write_text(token({"exp": 10_000_000_000}))
    good = {"sasl_oauth_token_file": str(file), "ssl_certfile": ca.issue("good")}
    assert (with_expiry(refused, good), with_expiry(rejected, good)) == (refused, rejected)
    assert (with_expiry(refused, {}), with_expiry(rejected, {})) == (refused, rejected)


@pytest.mark.parametrize(
    "text",
    [
        "opaque",
        "a.b.c",
        "é.é.é",
        token([]),
        token({"exp": None}),
        token({"exp": "soon"}),
        token({"exp": -1e300}),
        token({}),
        "",
    ],
)
def test_token_without_expiry_claim_has_no_expiry(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text, encoding="utf-8")
    assert token_expires_at({"sasl_oauth_token_file": str(file)}) is None


def test_unreadable_certificate_has_no_expiry(tmp_path: Path) -> None:
    file = tmp_path / "none.pem"
    assert certificate_expires_at({"ssl_certfile": str(file)}) is None
    file.write_text("nothing of the kind")
    assert certificate_expires_at({"ssl_certfile": str(file)}) is None
