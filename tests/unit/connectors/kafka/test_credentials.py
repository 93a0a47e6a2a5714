"""Our own files: read anew for each connection, and each that does not do named in a sentence."""

import base64
import json
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from connectors.errors import UnseenError
from connectors.kafka.credentials import TokenFile, at_fault, certificate_ends_at, password, tls_context, token_ends_at
from rules.model.monitoring import Reason
from tests.unit.connectors.kafka.certificates import Authority, authority

KEY_PASSWORD = "never-to-be-seen"


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return authority(tmp_path / "ca")


def locked(file: str) -> str:
    """The same certificate, its key encrypted."""
    held = Path(file).read_bytes()
    key = serialization.load_pem_private_key(held, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    closed = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(KEY_PASSWORD.encode()),
    )
    end = b"-----END PRIVATE KEY-----\n"
    path = Path(file).with_suffix(".locked")
    path.write_bytes(closed + held.partition(end)[2])
    return str(path)


def token(claims: object) -> str:
    return ".".join(base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in ({}, claims, {}))


def test_an_encrypted_key_is_opened_by_its_password_and_the_terminal_is_never_asked(
    ca: Authority, tmp_path: Path
) -> None:
    given = {"ssl_cafile": ca.file, "ssl_certfile": locked(ca.issue("ours"))}
    file = tmp_path / "key-password"
    file.write_text(KEY_PASSWORD + "\n")
    tls_context({**given, "ssl_password_file": str(file)})
    tls_context({**given, "ssl_password": KEY_PASSWORD})
    with pytest.raises(UnseenError, match=r"ours.locked is encrypted and needs ssl_password_file") as without:
        tls_context(given)
    with pytest.raises(UnseenError, match="is not opened by our ssl_password") as wrong:
        tls_context({**given, "ssl_password": KEY_PASSWORD[1:]})
    file.unlink()
    with pytest.raises(UnseenError, match=r"our ssl_password_file: cannot read .*key-password") as gone:
        tls_context({**given, "ssl_password_file": str(file)})
    for problem in (without, wrong, gone):
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
def test_a_file_without_what_it_should_hold_is_named(ca: Authority, tmp_path: Path, name: str, sentence: str) -> None:
    file = tmp_path / "empty.pem"
    file.write_text("nothing of the kind\n")
    with pytest.raises(UnseenError, match=rf"our {name} \S+empty.pem.* {sentence}") as problem:
        tls_context({"ssl_cafile": ca.file, name: str(file)})
    assert problem.value.reason is Reason.TLS_FAILED


def test_the_name_is_checked_unless_told_otherwise(ca: Authority) -> None:
    assert tls_context({"ssl_cafile": ca.file}).check_hostname
    lenient = tls_context({"ssl_cafile": ca.file, "ssl_check_hostname": False})
    assert (lenient.check_hostname, lenient.verify_mode) == (False, ssl.CERT_REQUIRED)


def test_password_and_token_are_those_of_now(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    for text in ("first", "second"):
        file.write_text(text + "\n")
        assert password({"sasl_plain_password_file": str(file)}) == {"sasl_plain_password": text}
        assert TokenFile(str(file)).token() == text
    file.write_text("")
    for read in (lambda: password({"sasl_plain_password_file": str(file)}), TokenFile(str(file)).token):
        with pytest.raises(UnseenError, match="secret does not hold one line") as problem:
            read()
        assert problem.value.reason is Reason.NOT_AUTHENTICATED


def test_a_refusal_names_what_of_ours_has_expired(ca: Authority, tmp_path: Path) -> None:
    refused = UnseenError(Reason.NOT_AUTHENTICATED, "it refused our login")
    unknown = UnseenError(Reason.TLS_FAILED, "it does not accept our client certificate (strange CA, or expired)")
    theirs = UnseenError(Reason.TLS_FAILED, "its certificate has expired")
    file = tmp_path / "token"

    file.write_text(token({"exp": 1_000_000_000}))
    old = {"sasl_oauth_token_file": str(file), "ssl_certfile": ca.issue("old", from_day=-3, to_day=-2)}
    assert at_fault(refused, old).detail == f"our sasl_oauth_token_file {file} has expired (2001-09-09 01:46:40 UTC)"
    assert "old.pem has expired (" in at_fault(unknown, old).detail
    assert at_fault(theirs, old) is theirs

    file.write_text(token({"exp": 10_000_000_000}))
    good = {"sasl_oauth_token_file": str(file), "ssl_certfile": ca.issue("good")}
    assert (at_fault(refused, good), at_fault(unknown, good)) == (refused, unknown)
    assert (at_fault(refused, {}), at_fault(unknown, {})) == (refused, unknown)


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
def test_a_token_that_tells_no_end_has_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text, encoding="utf-8")
    assert token_ends_at({"sasl_oauth_token_file": str(file)}) is None


def test_a_certificate_that_cannot_be_read_has_no_end(tmp_path: Path) -> None:
    file = tmp_path / "none.pem"
    assert certificate_ends_at({"ssl_certfile": str(file)}) is None
    file.write_text("nothing of the kind")
    assert certificate_ends_at({"ssl_certfile": str(file)}) is None
