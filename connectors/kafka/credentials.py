"""Our own side of a login: files that are read anew each time, and what is wrong with them where a node turns us away.

A job runs for months, and certificates, passwords and tokens are replaced under it. So nothing of them is kept: each
connection reads the files that the configuration names. The TLS context is made here and not by kafka-python, whose
`ssl_crlfile` raises TypeError, and which lets OpenSSL ask the terminal for the password of an encrypted key.
"""

import base64
import binascii
import json
import ssl
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509

from connectors.errors import UnseenError, UsageError
from connectors.kafka.error_classification import OF_OUR_CERTIFICATE
from connectors.kafka.kafka_python import AbstractTokenProvider
from connectors.secret import Secret
from rules.model.monitoring import Reason

FILES = frozenset({"sasl_oauth_token_file", "sasl_plain_password_file", "ssl_password_file"})
"""Options of ours, which kafka-python does not know."""
_TLS_FILES = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")


class TokenFile(AbstractTokenProvider):  # type: ignore[misc]
    """What kafka-python asks for an OAUTHBEARER token at each login."""

    def __init__(self, path: str) -> None:
        """Reads nothing yet."""
        super().__init__()
        self._path = path

    def token(self) -> str:
        """The token as the file holds it now.

        Raises:
            UnseenError: NOT_AUTHENTICATED, the file cannot be read.
        """
        return _secret("sasl_oauth_token_file", self._path, Reason.NOT_AUTHENTICATED)

    def extensions(self) -> dict[str, str]:
        """None."""
        return {}


def for_kafka(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as kafka-python takes them, but for what `password` gives at each login."""
    theirs = {name: value for name, value in options.items() if name not in FILES}
    token_file = options.get("sasl_oauth_token_file")
    return theirs if token_file is None else {**theirs, "sasl_oauth_token_provider": TokenFile(str(token_file))}


def password(options: Mapping[str, Any]) -> Mapping[str, str]:
    """What a login by password needs, as the file holds it now; nothing where no file is named.

    Raises:
        UnseenError: NOT_AUTHENTICATED, the file cannot be read.
    """
    file = options.get("sasl_plain_password_file")
    if file is None:
        return {}
    return {"sasl_plain_password": _secret("sasl_plain_password_file", str(file), Reason.NOT_AUTHENTICATED)}


def tls_context(options: Mapping[str, Any]) -> ssl.SSLContext:
    """Whom we trust and who we are, from the files as they are now.

    Raises:
        UnseenError: TLS_FAILED, naming the file that does not do.
    """
    for name in _TLS_FILES:
        if options.get(name):
            _readable(name, str(options[name]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = bool(options.get("ssl_check_hostname", True))
    if options.get("ssl_cafile"):
        _trust(context, options, "ssl_cafile")
    else:
        context.load_default_certs()
    if options.get("ssl_certfile"):
        _identify(context, options)
    if options.get("ssl_crlfile"):
        _trust(context, options, "ssl_crlfile")
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


def at_fault(problem: UnseenError, options: Mapping[str, Any]) -> UnseenError:
    """The same failure, in words that name what of ours has expired, where that explains it."""
    if problem.reason is Reason.TLS_FAILED and problem.detail in OF_OUR_CERTIFICATE:
        name, ends_at = "ssl_certfile", certificate_ends_at(options)
    elif problem.reason is Reason.NOT_AUTHENTICATED:
        name, ends_at = "sasl_oauth_token_file", token_ends_at(options)
    else:
        return problem
    if ends_at is None or ends_at > time.time():
        return problem
    ended = datetime.fromtimestamp(ends_at, UTC).isoformat(" ", "seconds").removesuffix("+00:00")
    return UnseenError(problem.reason, f"our {name} {options[name]} has expired ({ended} UTC)")


def certificate_ends_at(options: Mapping[str, Any]) -> float | None:
    """Until when our own certificate is valid, in seconds since the Unix epoch; None without a readable one."""
    try:
        held = Path(str(options["ssl_certfile"])).read_bytes()
        return x509.load_pem_x509_certificates(held)[0].not_valid_after_utc.timestamp()
    except (KeyError, OSError, ValueError):
        return None


def token_ends_at(options: Mapping[str, Any]) -> float | None:
    """Until when our token says it is valid, in seconds since the Unix epoch; None where it is no JWT (RFC 7519)."""
    try:
        _, claims, _ = Path(str(options["sasl_oauth_token_file"])).read_text(encoding="ascii").split(".")
        ends_at = float(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])
        datetime.fromtimestamp(ends_at, UTC)
    except (KeyError, OSError, ValueError, TypeError, OverflowError, binascii.Error):
        return None
    return ends_at


def _trust(context: ssl.SSLContext, options: Mapping[str, Any], name: str) -> None:
    try:
        context.load_verify_locations(str(options[name]))
    except ssl.SSLError as problem:
        what = "revocation list" if name == "ssl_crlfile" else "certificate"
        detail = f"our {name} {options[name]} holds no {what} that can be read"
        raise UnseenError(Reason.TLS_FAILED, detail) from problem


def _identify(context: ssl.SSLContext, options: Mapping[str, Any]) -> None:
    certificate, key = str(options["ssl_certfile"]), options.get("ssl_keyfile")
    key_password, file = options.get("ssl_password"), options.get("ssl_password_file")
    if file is not None:
        key_password = _secret("ssl_password_file", str(file), Reason.TLS_FAILED)
    try:
        # Never None: OpenSSL would ask the terminal.
        context.load_cert_chain(certificate, key, password=str(key_password or ""))
    except ssl.SSLError as problem:
        if problem.reason == "KEY_VALUES_MISMATCH":
            raise
        holder = certificate if key is None else str(key)
        detail = f"our ssl_certfile {certificate} and its key {holder} cannot be read as PEM"
        if b"ENCRYPTED" in Path(holder).read_bytes():
            said = "needs ssl_password_file" if key_password is None else "is not opened by our ssl_password"
            detail = f"our key in {holder} is encrypted and {said}"
        raise UnseenError(Reason.TLS_FAILED, detail) from problem


def _readable(name: str, path: str) -> None:
    try:
        Path(path).open("rb").close()
    except OSError as problem:
        detail = f"our {name} {path} cannot be read: {problem.strerror}"
        raise UnseenError(Reason.TLS_FAILED, detail) from problem


def _secret(name: str, path: str, reason: Reason) -> str:
    try:
        return Secret(file=Path(path)).read()
    except UsageError as problem:
        raise UnseenError(reason, f"our {name}: {problem}") from problem
