"""The SASL login of one cluster's connections: kafka-python's mechanisms, with credentials that are read at each login.

With GSSAPI a thread gets the Kerberos ticket, because libkrb5 waits 25 s for a KDC that does not answer, and the event
loop would wait with it, for all clusters.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from connectors.errors import ObservationError
from connectors.kafka.credentials import kafka_python_options, sasl_password
from connectors.kafka.error_code import ErrorCode
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.request_pacing import RateLimiter
from rules.model.monitoring import Reason

_REQUESTS: Final = {"PLAIN": 2, "OAUTHBEARER": 2, "GSSAPI": 4}
"""SaslHandshake and one round of SaslAuthenticate, with GSSAPI three; SCRAM takes two."""
_SINCE_KAFKA_1: Final = 1
"""SaslHandshake before this version is followed by bytes without a frame; no KRaft controller needs it."""
Send = Callable[[Any, float], "asyncio.Future[Any]"]
"""Sends a request whose version is set until a time of the loop's clock, and returns the future of its response."""


class Login:
    """How the connections of one cluster log in."""

    def __init__(
        self, loop: EventLoop, options: Mapping[str, Any], rate_limiter: RateLimiter, *, timeout_s: float
    ) -> None:
        """`options` are those of the cluster; `timeout_s` is for one login, once it may begin."""
        self._loop = loop
        self._options = options
        self._name = str(options["sasl_mechanism"])
        self._rate_limiter = rate_limiter
        self._timeout_s = timeout_s
        self._kerberos = KerberosLogins(loop, timeout_s=timeout_s)

    async def run(self, host: str, version_of: Callable[[Any], int], send: Send) -> float:
        """Logs in to a host, and returns for how many seconds the session lasts; 0: for ever.

        Raises:
            Exception: the failure, to be passed to `classify`.
        """
        # Acquired here and not together with ApiVersions: otherwise paused nodes that resume would all receive a
        # login within the same second.
        await self._rate_limiter.acquire(self._loop, _REQUESTS.get(self._name, 3))
        mechanism = await self._mechanism(host)
        due = self._loop.now() + self._timeout_s

        async def answer(request: Any) -> Any:
            request.API_VERSION = version_of(request)
            return await send(request, due)

        offered = await answer(SaslHandshakeRequest(mechanism=self._name, min_version=_SINCE_KAFKA_1))
        if offered.error_code != ErrorCode.NONE:
            raise kafka_errors.for_code(offered.error_code)()
        if self._name not in offered.mechanisms:
            raise kafka_errors.UnsupportedSaslMechanismError
        lifetime_ms = 0
        while not mechanism.is_done():
            authenticated = await answer(SaslAuthenticateRequest(mechanism.auth_bytes()))
            if authenticated.error_code != ErrorCode.NONE:
                raise kafka_errors.SaslAuthenticationFailedError
            mechanism.receive(authenticated.auth_bytes)
            lifetime_ms = authenticated.session_lifetime_ms or 0
        if not mechanism.is_authenticated():
            raise kafka_errors.SaslAuthenticationFailedError
        return lifetime_ms / 1000

    async def _mechanism(self, host: str) -> Any:
        options = {
            "sasl_kerberos_service_name": "kafka",
            **kafka_python_options(self._options),
            # Each time: a session may be renewed after the password was replaced.
            **sasl_password(self._options),
            "host": host,
        }
        if self._name == "GSSAPI":
            return await self._kerberos.prepared(options)
        return get_sasl_mechanism(self._name)(**options)


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
        self._last: asyncio.Task[KerberosLogin] | None = None

    async def prepared(self, options: Mapping[str, Any]) -> KerberosLogin:
        """Returns a login that has its ticket; `options` are kafka-python's, and the host.

        Raises:
            ObservationError: NOT_AUTHENTICATED, there is no ticket, or there was none in time.
        """
        deadline = self._loop.now() + self._timeout_s
        try:
            while (running := self._last) is not None and not running.done():
                await self._loop.wait_until(running.done, (running,), deadline - self._loop.now())
                if not running.done():
                    raise TimeoutError  # noqa: TRY301 - as for the own ticket
            own = self._last = self._loop.spawn(self._loop.run_in(_start_thread, lambda: KerberosLogin(**options)))
            return await self._loop.wait_for(own, deadline - self._loop.now())
        except TimeoutError as problem:
            why = f"no answer from the KDC within {self._timeout_s:g} s"
            raise _failure(f"no Kerberos ticket for {_service(options)}: {why}") from problem


def _start_thread(run: Callable[[], None]) -> None:
    """Starts a thread of its own, for whose end the process does not wait."""
    threading.Thread(target=run, daemon=True).start()


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
