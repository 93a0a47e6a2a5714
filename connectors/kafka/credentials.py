"""The client's credentials: certificate, key, password and token files, re-read for each connection.

A job runs for months while certificates, passwords and tokens are replaced, so none of them is cached. The TLS context
is created here and not by kafka-python: its `ssl_crlfile` raises TypeError, and it lets OpenSSL prompt on the terminal
for the password of an encrypted key. After a failed login this module checks whether a credential has expired.

With GSSAPI a thread gets the Kerberos ticket, because libkrb5 waits 25 s for a KDC that does not answer. kafka-python
3.0.12 gets the ticket in the event loop, where nothing else runs meanwhile, for any cluster, and its errors do not name
what Kerberos refused.
"""

import base64
import binascii
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI
from kafka.net.sasl.oauth import AbstractTokenProvider

from connectors.errors import ObservationError, UsageError
from connectors.kafka.error_classification import CLIENT_CERTIFICATE_DETAILS
from connectors.kafka.event_loop import EventLoop, TypedFuture
from connectors.secret import Secret
from connectors.store.stored_json import parse_json
from rules.model.monitoring import Reason

SECRET_FILE_OPTIONS = frozenset({"sasl_oauth_token_file", "sasl_plain_password_file", "ssl_password_file"})
"""kraftwatch's own options; kafka-python does not know them."""
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
    return {"sasl_plain_password": _secret("sasl_plain_password_file", str(file), Reason.NOT_AUTHENTICATED)}


def uses_tls(options: Mapping[str, Any]) -> bool:
    """Returns whether connections are encrypted."""
    return options.get("security_protocol") in ("SSL", "SASL_SSL")


def tls_context(options: Mapping[str, Any]) -> ssl.SSLContext:
    """Returns a TLS context with the trusted CAs, the revocation list and the client certificate, read from the files.

    Raises:
        ObservationError: TLS_FAILED, naming the file that cannot be used.
    """
    for name in _TLS_FILES:
        if options.get(name):
            _require_readable(name, str(options[name]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
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
        key_password = _secret("ssl_password_file", str(file), Reason.TLS_FAILED)
    try:
        # Never None: OpenSSL would prompt on the terminal.
        context.load_cert_chain(certificate, key, password=str(key_password or ""))
    except ssl.SSLError as problem:
        if problem.reason == "KEY_VALUES_MISMATCH":
            raise
        key_file = certificate if key is None else str(key)
        detail = f"ssl_certfile {certificate} and its key {key_file} cannot be read as PEM"
        if b"ENCRYPTED" in Path(key_file).read_bytes():
            why = "ssl_password_file is missing" if key_password is None else "ssl_password does not decrypt it"
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


PREPARED_LOGIN = "prepared_login"
"""The option with which kafka-python's connection gets a login that is ready."""


class KerberosLogin(SaslMechanismGSSAPI):  # type: ignore[misc]
    """kafka-python's login, with one sentence for each failure."""

    def __init__(self, **options: Any) -> None:
        """Gets a ticket for the node, from the cache or from the KDC. Blocks."""
        try:
            super().__init__(**options)
        except Exception as problem:
            raise _failure(f"no Kerberos ticket for {_service(options)}: {_status_text(problem)}") from problem

    def receive(self, auth_bytes: bytes) -> None:
        """Takes the node's answer, which must prove that the node has the service's key."""
        try:
            super().receive(auth_bytes)
        except Exception as problem:
            raise _failure(
                f"the node's answer to the Kerberos login is not valid: {_status_text(problem)}"
            ) from problem


class KerberosLogins:
    """The logins of one cluster. They wait for each other, so a KDC that does not answer occupies one thread."""

    def __init__(self, loop: EventLoop, *, timeout_s: float) -> None:
        self._loop = loop
        self._timeout_s = timeout_s
        self._last: TypedFuture[KerberosLogin] | None = None

    async def prepared(self, host: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the option `PREPARED_LOGIN` with a login to this host; `options` are kafka-python's.

        Raises:
            ObservationError: NOT_AUTHENTICATED, there is no ticket, or there was none in time.
        """
        options = {"host": host, **options}
        deadline = self._loop.now() + self._timeout_s
        try:
            while (running := self._last) is not None and not running.is_done:
                await self._loop.wait_until(lambda: running.is_done, (running,), deadline - self._loop.now())
                if not running.is_done:
                    raise TimeoutError  # noqa: TRY301 - as for the own ticket
            own = self._last = self._loop.spawn(self._loop.run_in(_start_thread, lambda: KerberosLogin(**options)))
            return {PREPARED_LOGIN: await self._loop.wait_for(own, deadline - self._loop.now())}
        except TimeoutError as problem:
            why = f"no answer from the KDC within {self._timeout_s:g} s"
            raise _failure(f"no Kerberos ticket for {_service(options)}: {why}") from problem


def _start_thread(run: Callable[[], None]) -> None:
    """Starts a thread of its own, for whose end the process does not wait."""
    threading.Thread(target=run, daemon=True).start()


def _prepared(**options: Any) -> KerberosLogin:
    login: KerberosLogin = options[PREPARED_LOGIN]
    return login


register_sasl_mechanism("GSSAPI", _prepared, overwrite=True)


def _failure(detail: str) -> ObservationError:
    return ObservationError(Reason.NOT_AUTHENTICATED, detail)


def _service(options: Mapping[str, Any]) -> str:
    return f"{options['sasl_kerberos_service_name']}@{options.get('sasl_kerberos_domain_name') or options['host']}"


def _status_text(problem: Exception) -> str:
    """Returns Kerberos's own words: the minor status of a `gssapi.exceptions.GSSError`, if it has one."""
    try:
        from gssapi.exceptions import GSSError  # an optional package
    except (ImportError, OSError):
        return "the Python package gssapi cannot be imported"
    if not isinstance(problem, GSSError):
        return type(problem).__name__
    minor = problem.get_all_statuses(problem.min_code, False) if problem.min_code else []  # noqa: FBT003
    return " ".join(minor or problem.get_all_statuses(problem.maj_code, True))  # noqa: FBT003
