"""Sends requests to the nodes of one cluster: connections, login, backoff and classified errors.

There is one connection per (observation source, address), and one backoff per address.

Of kafka-python only the messages (`kafka.protocol`) and the SASL mechanisms (`kafka.net.sasl`) are used, both public.
Its connections and its manager are not: after any error it starts an endless Metadata bootstrap, which controllers do
not serve, and it does not back off after a failed login.
"""

import asyncio
import ssl
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

from kafka import errors as kafka_errors

from connectors.errors import ObservationError
from connectors.kafka.cluster_connection import Address, ClusterConnection
from connectors.kafka.connection import Connection
from connectors.kafka.credentials import uses_login, uses_tls, with_expiry
from connectors.kafka.error_classification import NO_TLS, classify
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.login import Login
from connectors.kafka.protocol_gate import ProtocolGate, Visit
from connectors.kafka.request_pacing import AddressBackoff, RateLimiter
from connectors.kafka.resolver import Resolver
from connectors.kafka.transport import PlainTransport, Receiver, open_transport
from rules.model.monitoring import ObservationSource, Reason, ServerCertificate

_PLAINTEXT = {"security_protocol": "PLAINTEXT"}
_PLAINTEXT_S = 1.0
"""How long a node is waited for that is asked without TLS."""
_NO_TLS_ANSWER = (ssl.SSLEOFError, ConnectionError, TimeoutError)
"""How a TLS handshake ends with a node that does not use TLS, and with one that fails."""
_NO_SASL: Final = "the listener closes the connection after ApiVersions: it uses SASL, but security_protocol does not"
MAX_CONNECTIONS = 512
"""Of one cluster: a node that reports other addresses in each answer must not take every file descriptor."""


class Client:
    """Sends requests to the nodes of one cluster. All methods run in the event loop's thread."""

    def __init__(self, loop: EventLoop, cluster: ClusterConnection, rate_limiter: RateLimiter) -> None:
        """Opens no connection yet."""
        self.loop = loop
        self.options = {"client_id": "kraftwatch", **cluster.options}
        self.timeout_ms = cluster.request_timeout_ms
        self.setup_s = cluster.request_timeout_ms / 1000
        self.resolver = Resolver(loop, resolve=cluster.resolve, hosts_file=cluster.hosts_file)
        self.rate_limiter = rate_limiter
        self._login = (
            Login(loop, self.options, rate_limiter, timeout_s=self.setup_s) if uses_login(self.options) else None
        )
        self._connections: dict[tuple[ObservationSource, Address], asyncio.Task[tuple[Connection, Visit]]] = {}
        self._backoff = AddressBackoff(loop.now)
        self._gate = ProtocolGate(loop)
        self._ended: dict[Address, float] = {}
        """When the newest connection that had served a request, or was to, ended by itself, in seconds of the loop's
        clock."""
        self._turns: dict[tuple[ObservationSource, Address], int] = {}
        """How often a source has connected to a host with several addresses: each may be another node's."""
        self._closed = False

    async def send(
        self, address: Address, request: Any, *, source: ObservationSource, timeout_ms: int | None = None
    ) -> Any:
        """Sends a kafka-python request, in the newest version that both sides support, and returns the response.

        Each source has its own connection, so requests of different sources do not wait for each other. `timeout_ms` is
        for the response, once connected; None: the cluster's request timeout.

        Raises:
            ObservationError: no response. While the address is backed off, the previous failure is raised again.
        """
        timeout_s = self.setup_s if timeout_ms is None else timeout_ms / 1000
        connection, visit = await self._connection(source, address)
        await self.rate_limiter.acquire(self.loop)
        try:
            response = await connection.request(request, timeout_s)
        except kafka_errors.IncompatibleBrokerVersion as problem:
            # Nothing was sent: an older Kafka that does not support this request still answers others.
            visit.end()
            raise classify(problem) from problem
        except Exception as problem:
            failure = self._with_sasl_hint(connection, classify(problem))
            connection.close(failure)
            failure.late = failure.reason is Reason.TIMED_OUT and not connection.has_served_request
            if connection.has_served_request or failure.late:
                self._note_end(address)
            if not connection.has_served_request:
                failure = self._failed(address, failure)
            visit.end()
            raise failure from problem
        connection.has_served_request = True
        self._gate.prove()
        self._backoff.succeed(address)
        return response

    def _note_end(self, address: Address) -> None:
        self._ended.pop(address, None)
        self._ended[address] = self.loop.now()
        if len(self._ended) > MAX_CONNECTIONS:
            del self._ended[next(iter(self._ended))]

    def has_ended_since(self, address: Address, since: float) -> bool:
        """Returns whether a connection that had served requests has ended since then, or one timed out: the process may
        be another one, or hang.

        `since`: in seconds of the loop's clock.
        """
        return self._ended.get(address, since) > since

    def server_certificate(self, source: ObservationSource, address: Address) -> ServerCertificate | None:
        """Returns the verified certificate of this source's open connection to this address; None without TLS."""
        connection = _established(self._connections.get((source, address)))
        return None if connection is None else connection.transport.certificate()

    async def presented_certificate(self, address: Address) -> ServerCertificate | None:
        """Returns the certificate that a node presents, over a connection of its own, without verifying it.

        Returns None without TLS, or if the handshake fails.
        """
        if not uses_tls(self.options):
            return None
        try:
            transport = await self.open_transport(await self.resolver.addresses(address.host), address, verify=False)
        except Exception:  # noqa: BLE001 - whatever the node sends, it has presented no certificate
            return None
        try:
            return transport.certificate()
        finally:
            transport.abort()

    async def open_transport(
        self, addresses: Sequence[str], address: Address, *, verify: bool = True
    ) -> PlainTransport:
        """Opens a connection to a node within the time of a request: see `transport.open_transport`.

        Raises:
            ObservationError: the failure of the connection or of the handshake.
        """
        visit = await self._gate.enter()
        try:
            return await self._open_transport(visit, addresses, address, verify=verify)
        except Exception as problem:
            raise self._gate.fail(address, classify(problem)) from problem
        finally:
            visit.end()

    async def _open_transport(
        self,
        visit: Visit,
        addresses: Sequence[str],
        address: Address,
        *,
        receiver: Receiver | None = None,
        verify: bool = True,
    ) -> PlainTransport:
        asked = False

        async def connected() -> float:
            nonlocal asked
            await visit.connected()
            if uses_tls(self.options) and self._is_doubtful(address):
                asked = True
                await self._require_tls(visit, addresses, address)
            return self.loop.now() + self.setup_s

        deadline = self.loop.now() + self.setup_s
        try:
            return await open_transport(
                self.loop,
                addresses,
                address,
                self.options,
                deadline=deadline,
                connected=connected,
                receiver=receiver,
                verify=verify,
            )
        except _NO_TLS_ANSWER:
            if not asked:
                await self._require_tls(visit, addresses, address)
            raise

    def _is_doubtful(self, address: Address) -> bool:
        """Returns whether a node may not use TLS: none has shown that it does, or this one has shown the opposite."""
        last = self._backoff.newest(address)
        unknown = not self._gate.is_proved and not self._gate.tls_seen
        return unknown or (last is not None and last.reason is Reason.WRONG_PROTOCOL)

    async def _require_tls(self, visit: Visit, addresses: Sequence[str], address: Address) -> None:
        """Asks a node without TLS, which is harmless to both kinds of listeners.

        Raises:
            ObservationError: WRONG_PROTOCOL, because it answers; or it accepts no connection.
        """
        limit_s = min(self.setup_s, _PLAINTEXT_S)

        async def connected() -> float:
            await visit.connected()
            return self.loop.now() + limit_s

        connection = self._new_connection(None)
        transport = await open_transport(
            self.loop,
            addresses,
            address,
            _PLAINTEXT,
            deadline=self.loop.now() + limit_s,
            connected=connected,
            receiver=connection,
        )
        try:
            await self.rate_limiter.acquire(self.loop)
            await connection.initialize(transport, address.host, self.loop.now() + limit_s)
        except Exception as problem:  # noqa: BLE001 - whatever it does, it does not answer without TLS
            self._gate.tls_seen |= classify(problem).reason is Reason.WRONG_PROTOCOL
            return
        finally:
            transport.abort()
        raise ObservationError(Reason.WRONG_PROTOCOL, NO_TLS)

    def disconnect(self, source: ObservationSource, address: Address) -> None:
        """Closes the connection of this source to this address, if one is open."""
        connection = _established(self._connections.pop((source, address), None))
        if connection is not None:
            connection.close(_closed_by_us())

    def ask_another(self, source: ObservationSource, address: Address) -> None:
        """Lets this source ask another node of a host with several addresses next time; nothing for another host."""
        if (source, address) in self._turns:
            self.disconnect(source, address)

    def close(self) -> None:
        """Closes every connection. A connection that is still being opened is closed once it is established."""
        self._closed = True
        for source, address in list(self._connections):
            self.disconnect(source, address)

    async def _connection(self, source: ObservationSource, address: Address) -> tuple[Connection, Visit]:
        self._require_open()
        key = (source, address)
        existing = self._connections.pop(key, None)
        if existing is None or (existing.done() and _established(existing) is None):
            if (former := _opened(existing)) is not None and former.has_served_request:
                self._note_end(address)
            if (problem := self._gate.problem() or self._backoff.problem(address)) is not None:
                raise problem
            existing = self.loop.spawn(self._open(source, address))
        # The newest is the last: the first is the one that was unused for the longest time.
        self._connections[key] = existing
        if len(self._connections) > MAX_CONNECTIONS:
            self.disconnect(*next(iter(self._connections)))
        return await existing

    async def _open(self, source: ObservationSource, address: Address) -> tuple[Connection, Visit]:
        visit: Visit | None = None
        transport: PlainTransport | None = None
        try:
            addresses = self._in_turn((source, address), await self.resolver.addresses(address.host))
            visit = await self._gate.enter()
            connection = self._new_connection(self._login)
            transport = await self._open_transport(visit, addresses, address, receiver=connection)
            await self.rate_limiter.acquire(self.loop)
            await connection.initialize(transport, address.host, self.loop.now() + self.setup_s)
            self._require_open()
        except BaseException as problem:
            # BaseException: the socket must be closed also when the loop ends while the connection is being opened.
            if transport is not None:
                transport.abort()
            if not isinstance(problem, Exception):
                raise
            failure = self._failed(address, with_expiry(classify(problem), self.options))
            if visit is not None:
                visit.end()
            raise failure from problem
        return connection, visit

    def _in_turn(self, key: tuple[ObservationSource, Address], addresses: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the addresses of a host, each time from the next one on."""
        if len(addresses) < 2:
            self._turns.pop(key, None)
            return addresses
        turn = self._turns.pop(key, -1) + 1
        self._turns[key] = turn
        if len(self._turns) > MAX_CONNECTIONS:
            del self._turns[next(iter(self._turns))]
        at = turn % len(addresses)
        return addresses[at:] + addresses[:at]

    def _new_connection(self, login: Login | None) -> Connection:
        client_id = str(self.options["client_id"])
        return Connection(self.loop, client_id=client_id, login=login, on_request=self.rate_limiter.count_request)

    def _failed(self, address: Address, failure: ObservationError) -> ObservationError:
        """Notes that an address does not answer, and returns what to report."""
        failure = self._gate.fail(address, failure)
        self._backoff.fail(address, failure)
        return failure

    def _with_sasl_hint(self, connection: Connection, problem: ObservationError) -> ObservationError:
        """A listener that requires SASL answers ApiVersions and then closes the connection at the first other request.

        So does a node that is being stopped, again and again: one of a cluster that has answered is asked soon again.
        """
        if problem.reason is not Reason.CLOSED or connection.has_served_request or connection.logs_in:
            return problem
        known = self._gate.is_proved
        return ObservationError(Reason.NOT_AUTHENTICATED if known else Reason.WRONG_PROTOCOL, _NO_SASL)

    def _require_open(self) -> None:
        # A loop that ends still runs coroutines that are ready: a connection opened then would never be closed.
        if self._closed:
            raise _closed_by_us()


@contextmanager
def short_client(cluster: ClusterConnection) -> Iterator[tuple[EventLoop, Client]]:
    """Yields an event loop and a client of its own for a few requests to a cluster."""
    with closing(EventLoop()) as loop, closing(Client(loop, cluster, RateLimiter())) as client:
        yield loop, client


def _opened(opening: "asyncio.Task[tuple[Connection, Visit]] | None") -> Connection | None:
    """Returns the connection, once it is opened; it may be closed since."""
    if opening is None or not opening.done() or opening.cancelled() or opening.exception() is not None:
        return None
    return opening.result()[0]


def _established(opening: "asyncio.Task[tuple[Connection, Visit]] | None") -> Connection | None:
    """Returns the connection, once it is opened and until it is closed."""
    connection = _opened(opening)
    return None if connection is None or connection.closed else connection


def _closed_by_us() -> ObservationError:
    return ObservationError(Reason.CLOSED, "kraftwatch closed the connection")
