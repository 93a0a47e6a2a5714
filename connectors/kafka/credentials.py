"""The client's credentials: certificate, key, password and token files, re-read for each connection.

A job runs for months while certificates, passwords and tokens are replaced, so none of them is cached. The TLS context
is created here and not by kafka-python: its `ssl_crlfile` raises TypeError, and it lets OpenSSL prompt on the terminal
for the password of an encrypted key. After a failed login this module checks whether a credential has expired.
"""

import base64
import binascii
import ssl
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from connectors.errors import ObservationError, UsageError
from connectors.kafka.error_classification import CLIENT_CERTIFICATE_DETAILS
from connectors.settings.secret import Secret
from connectors.store.stored_json import parse_json
from rules.model.monitoring import Reason

SECRET_FILE_OPTIONS = frozenset({"sasl_oauth_token_file", "sasl_plain_password_file", "ssl_password_file"})
"""kraftwatch's own options; kafka-python does not know them."""
TLS_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""Those that kraftwatch uses, by Kafka's names: the options `ssl_minimum_version` and `ssl_maximum_version`."""
_TLS_FILES = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")


class TokenFile(AbstractTokenProvider):  # type: ignore[misc]
    """kafka-python's token provider: reads the OAUTHBEARER token from a file at each login."""

    def __init__(self, path: str) -> None:
        """Does not read the file yet."""
        super().__init__()
        self._path = path

    def token(self) -> str:
        """Returns the current content of the file."""
        return _secret("sasl_oauth_token_file", self._path, Reason.NOT_AUTHENTICATED)

    def extensions(self) -> dict[str, str]:
        """Returns no SASL extensions."""
        return {}


def kafka_python_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns kafka-python's options, except the password: `sasl_password` reads it at each login."""
    known = {name: value for name, value in options.items() if name not in SECRET_FILE_OPTIONS}
    token_file = options.get("sasl_oauth_token_file")
    return known if token_file is None else {**known, "sasl_oauth_token_provider": TokenFile(str(token_file))}


def sasl_password(options: Mapping[str, Any]) -> Mapping[str, str]:
    """Returns the option `sasl_plain_password` with the current content of its file; empty if no file is configured."""
    file = options.get("sasl_plain_password_file")
    if file is None:
        return {}
    return {"sasl_plain_password": _secret("sasl_plain_password", str(file), Reason.NOT_AUTHENTICATED)}


def uses_tls(options: Mapping[str, Any]) -> bool:
    """Returns whether connections are encrypted."""
    return options.get("security_protocol") in ("SSL", "SASL_SSL")


def uses_login(options: Mapping[str, Any]) -> bool:
    """Returns whether connections log in (SASL)."""
    return str(options.get("security_protocol")).startswith("SASL_")


def tls_context(options: Mapping[str, Any]) -> ssl.SSLContext:
    """Returns a TLS context with the trusted CAs, the revocation list and the client certificate, read from the files.

    Raises:
        ObservationError: TLS_FAILED, naming the file that cannot be used.
    """
    for name in _TLS_FILES:
        if options.get(name):
            _require_readable(name, str(options[name]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = TLS_VERSIONS[str(options.get("ssl_minimum_version", "TLSv1.2"))]
    context.maximum_version = TLS_VERSIONS[str(options.get("ssl_maximum_version", "TLSv1.3"))]
    if options.get("ssl_ciphers"):
        _set_ciphers(context, str(options["ssl_ciphers"]))
    if options.get("ssl_partial_chain"):
        # Java trusts each certificate of its trust store, and not only roots.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = bool(options.get("ssl_check_hostname", True))
    if options.get("ssl_cafile"):
        _load_trust(context, options, "ssl_cafile")
    else:
        context.load_default_certs()
    if options.get("ssl_certfile"):
        _load_client_certificate(context, options)
    if options.get("ssl_crlfile"):
        _load_trust(context, options, "ssl_crlfile")
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


def with_expiry(problem: ObservationError, options: Mapping[str, Any]) -> ObservationError:
    """Returns the failure with a detail that names the expired certificate or token file, if one has expired."""
    if problem.reason is Reason.TLS_FAILED and problem.detail in CLIENT_CERTIFICATE_DETAILS:
        name, expires_at = "ssl_certfile", certificate_expires_at(options)
    elif problem.reason is Reason.NOT_AUTHENTICATED:
        name, expires_at = "sasl_oauth_token_file", token_expires_at(options)
    else:
        return problem
    if expires_at is None or expires_at > time.time():
        return problem
    expired = datetime.fromtimestamp(expires_at, UTC).isoformat(" ", "seconds").removesuffix("+00:00")
    return ObservationError(problem.reason, f"{name} {options[name]} has expired ({expired} UTC)")


def certificate_expires_at(options: Mapping[str, Any]) -> float | None:
    """Returns when the client certificate expires, in seconds since the Unix epoch; None if it cannot be read."""
    # Imported here: without a certificate it is not needed, and takes a fifth of what the client does.
    from cryptography import x509

    try:
        content = Path(str(options["ssl_certfile"])).read_bytes()
        return x509.load_pem_x509_certificates(content)[0].not_valid_after_utc.timestamp()
    except (KeyError, OSError, ValueError):
        return None


def token_expires_at(options: Mapping[str, Any]) -> float | None:
    """Returns when the token expires, in seconds since the Unix epoch; None if it is not a JWT (RFC 7519)."""
    try:
        _, claims, _ = Path(str(options["sasl_oauth_token_file"])).read_text(encoding="ascii").split(".")
        expires_at = float(parse_json(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])
        datetime.fromtimestamp(expires_at, UTC)
    except (KeyError, OSError, ValueError, TypeError, OverflowError, binascii.Error):
        return None
    return expires_at


def _set_ciphers(context: ssl.SSLContext, ciphers: str) -> None:
    try:
        context.set_ciphers(ciphers)
    except ssl.SSLError as problem:
        detail = f"OpenSSL of this host has none of the cipher suites {ciphers}"
        raise ObservationError(Reason.TLS_FAILED, detail) from problem


def _load_trust(context: ssl.SSLContext, options: Mapping[str, Any], name: str) -> None:
    try:
        context.load_verify_locations(str(options[name]))
    except ssl.SSLError as problem:
        what = "revocation list" if name == "ssl_crlfile" else "certificate"
        detail = f"{name} {options[name]} holds no {what} that can be read"
        raise ObservationError(Reason.TLS_FAILED, detail) from problem


def _load_client_certificate(context: ssl.SSLContext, options: Mapping[str, Any]) -> None:
    certificate, key = str(options["ssl_certfile"]), options.get("ssl_keyfile")
    key_password, file = options.get("ssl_password"), options.get("ssl_password_file")
    if file is not None:
        key_password = _secret("ssl_password", str(file), Reason.TLS_FAILED)
    try:
        # Never None: OpenSSL would prompt on the terminal.
        context.load_cert_chain(certificate, key, password=str(key_password or ""))
    except ssl.SSLError as problem:
        if problem.reason == "KEY_VALUES_MISMATCH":
            raise
        key_file = certificate if key is None else str(key)
        detail = f"ssl_certfile {certificate} and its key {key_file} cannot be read as PEM"
        if b"ENCRYPTED" in Path(key_file).read_bytes():
            why = "ssl_password is missing" if key_password is None else "ssl_password does not decrypt it"
            detail = f"the key in {key_file} is encrypted and {why}"
        raise ObservationError(Reason.TLS_FAILED, detail) from problem


def _require_readable(name: str, path: str) -> None:
    try:
        Path(path).open("rb").close()
    except OSError as problem:
        detail = f"{name} {path} cannot be read: {problem.strerror}"
        raise ObservationError(Reason.TLS_FAILED, detail) from problem


def _secret(name: str, path: str, reason: Reason) -> str:
    try:
        return Secret(file=Path(path)).read()
    except UsageError as problem:
        raise ObservationError(reason, f"{name}: {problem}") from problem
