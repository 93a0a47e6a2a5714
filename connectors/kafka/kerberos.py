"""Logins with GSSAPI: a thread gets the Kerberos ticket, because libkrb5 waits 25 s for a KDC that does not answer.

kafka-python 3.0.12 gets the ticket in the event loop, where nothing else runs meanwhile, for any cluster. Its errors
do not name what Kerberos refused.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI

from connectors.errors import ObservationError
from connectors.kafka.event_loop import EventLoop, TypedFuture
from rules.model.monitoring import Reason

PREPARED_LOGIN = "prepared_login"
"""The option with which kafka-python's connection gets a login that is ready."""


class KerberosLogin(SaslMechanismGSSAPI):  # type: ignore[misc]
    """kafka-python's login, with one sentence for each failure."""

    def __init__(self, **options: Any) -> None:
        """Gets a ticket for the node, from the cache or from the KDC. Blocks.

        Raises:
            ObservationError: NOT_AUTHENTICATED, in Kerberos's own words.
        """
        try:
            super().__init__(**options)
        except Exception as problem:
            raise _failure(f"no Kerberos ticket for {_service(options)}: {_status_text(problem)}") from problem

    def receive(self, auth_bytes: bytes) -> None:
        """Takes the node's answer.

        Raises:
            ObservationError: NOT_AUTHENTICATED, the answer does not prove that the node has the service's key.
        """
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
            while self._last is not None and not self._last.done:
                await self._wait(self._last, deadline)
            own = self._last = self._loop.spawn(self._loop.run_in(_start_thread, lambda: KerberosLogin(**options)))
            return {PREPARED_LOGIN: await self._loop.wait_for(own, deadline - self._loop.now())}
        except TimeoutError as problem:
            why = f"no answer from the KDC within {self._timeout_s:g} s"
            raise _failure(f"no Kerberos ticket for {_service(options)}: {why}") from problem

    async def _wait(self, running: TypedFuture[KerberosLogin], deadline: float) -> None:
        await self._loop.wait_until(lambda: running.done, (running,), deadline - self._loop.now())
        if not running.done:
            raise TimeoutError


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
