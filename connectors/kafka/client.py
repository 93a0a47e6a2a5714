"""Ask one node one thing: connections, login, backoff and the sentence that says why not.

kafka-python's KafkaConnection carries protocol, versions and SASL. Its manager is left out: after any error it
starts an endless Metadata bootstrap, which controllers do not serve, and it forgets to back off after a failed
login. What is left of a manager is here: one connection per (lane, address), and one backoff per address.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from connectors.cluster_connection import Cluster
from connectors.errors import UnseenError, UsageError
from connectors.kafka.credentials import FILES, at_fault, for_kafka, password
from connectors.kafka.error_classification import classify
from connectors.kafka.event_loop import Loop, Outcome
from connectors.kafka.kafka_python import KafkaConnection, kafka_errors
from connectors.kafka.rate_limiter import Budget
from connectors.kafka.resolver import Resolver
from connectors.kafka.transport import connect, secure
from rules.model.identifiers import host_and_port
from rules.model.monitoring import ObservationSource, Reason

OPTIONS = frozenset(
    {
        "client_id",
        "security_protocol",
        "ssl_cafile",
        "ssl_certfile",
        "ssl_keyfile",
        "ssl_password",
        "ssl_crlfile",
        "ssl_check_hostname",
        "sasl_mechanism",
        "sasl_plain_username",
        "sasl_plain_password",
        "sasl_kerberos_name",
        "sasl_kerberos_service_name",
        "sasl_kerberos_domain_name",
        *FILES,
    }
)
"""The names `Cluster.options` may hold: kafka-python's own, and files that hold a secret and are read at each login."""
_RECEIVE_BYTES = 64 * 1024 * 1024
_LOGIN_REQUESTS = {"PLAIN": 2, "OAUTHBEARER": 2}
"""SaslHandshake and one round of SaslAuthenticate; the other mechanisms take a second round."""
_GRACE_S = 1.0
_PERSISTENT = frozenset({Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED})


class Address(NamedTuple):
    """Where a node can be asked."""

    host: str
    port: int

    def __str__(self) -> str:
        """HOST:PORT."""
        return host_and_port(self.host, self.port)


class _Line(KafkaConnection):  # type: ignore[misc]
    """A connection that counts what it sends, and waits for its turn before it logs in."""

    def __init__(
        self, loop: Loop, address: Address, budget: Budget, options: Mapping[str, Any], *, setup_s: float
    ) -> None:
        super().__init__(
            loop.net,
            node_id=str(address),
            receive_message_max_bytes=_RECEIVE_BYTES,
            max_in_flight_requests_per_connection=2,
            **for_kafka(options),
        )
        self.budget = budget
        self._options = options
        self._loop = loop
        self._setup_s = setup_s
        self.proven = False
        """It has answered more than ApiVersions and a login."""

    async def _sasl_authenticate(self, timeout_at: float | None = None) -> None:
        # Not taken with the place of ApiVersions: paused nodes that go on would all log in within the same second.
        await self.budget.take(self._loop, _LOGIN_REQUESTS.get(self.config["sasl_mechanism"], 3))
        # Here, because a listener with a session's lifetime wants a login again on the same connection (KIP-368).
        self.config.update(password(self._options))
        await super()._sasl_authenticate(self._loop.now() + self._setup_s)

    def _send_request(self, request: Any, future: Any = None, timeout_at: float | None = None) -> Any:
        self.budget.count()
        return super()._send_request(request, future=future, timeout_at=timeout_at)


@dataclass(slots=True)
class _Backoff:
    failures: int
    until: float
    problem: UnseenError


class Client:
    """Asks the nodes of one cluster. All of it runs in the loop's thread."""

    def __init__(self, loop: Loop, cluster: Cluster, *, resolver: Resolver, budget: Budget) -> None:
        """Opens nothing yet.

        Raises:
            UsageError: an option that we do not know.
        """
        unknown = sorted(set(cluster.options) - OPTIONS)
        if unknown:
            known = ", ".join(sorted(OPTIONS))
            raise UsageError(f"Cluster {cluster.name}: unknown option {unknown[0]!r}; the options are {known}.")
        self._loop = loop
        self._options = {"client_id": "kraftwatch", **cluster.options}
        self.timeout_ms = cluster.request_timeout_ms
        self._setup_s = cluster.request_timeout_ms / 1000
        self._resolver = resolver
        self._budget = budget
        self._lines: dict[tuple[ObservationSource, Address], Outcome[_Line]] = {}
        self._backoff: dict[Address, _Backoff] = {}
        self._closed = False

    async def ask(
        self, address: Address, request: Any, *, lane: ObservationSource, timeout_ms: int | None = None
    ) -> Any:
        """Send a request and wait for its answer.

        Args:
            address: whom to ask.
            request: a kafka-python request; its version is the newest that both sides know.
            lane: requests of different lanes do not wait for each other.
            timeout_ms: for the answer, once connected; the cluster's request timeout by default.

        Raises:
            UnseenError: nothing was seen. While the address is backed off, the failure before, again.
        """
        timeout_s = self._setup_s if timeout_ms is None else timeout_ms / 1000
        line = await self._line(lane, address)
        await self._budget.take(self._loop)
        answer = Outcome[Any](line.send_request(request, request_timeout_ms=timeout_s * 1000))
        try:
            result = await self._loop.within(answer, timeout_s + _GRACE_S)
        except kafka_errors.IncompatibleBrokerVersion as problem:
            # Nothing was sent: an older Kafka that does not know this request answers the others.
            raise classify(problem) from problem
        except Exception as problem:
            unseen = _unproven(line, classify(problem))
            line.close(unseen)
            if not line.proven:
                self._back_off(address, unseen)
            raise unseen from problem
        line.proven = True
        self._backoff.pop(address, None)
        return result

    def hang_up(self, lane: ObservationSource, address: Address) -> None:
        """Close a connection, if there is one."""
        outcome = self._lines.pop((lane, address), None)
        if outcome is not None and outcome.done and outcome.future.succeeded():
            # With a reason: without one it would wait to send what is left, and the loop may be ending.
            outcome.future.value.close(UnseenError(Reason.CLOSED, "we hung up"))

    def close(self) -> None:
        """Close every connection, for good: one that is being opened ends as soon as it is there."""
        self._closed = True
        for lane, address in list(self._lines):
            self.hang_up(lane, address)

    async def _line(self, lane: ObservationSource, address: Address) -> _Line:
        self._require_open()
        key = (lane, address)
        held = self._lines.get(key)
        if held is not None and held.done and (held.future.failed() or held.future.value.closed):
            del self._lines[key]
            held = None
        if held is None:
            backoff = self._backoff.get(address)
            if backoff is not None and backoff.until > self._loop.now():
                raise UnseenError(backoff.problem.reason, backoff.problem.detail)
            held = self._lines[key] = self._loop.spawn(self._open(address))
        return await held.get()

    async def _open(self, address: Address) -> _Line:
        transport: Any = None
        line: _Line | None = None
        try:
            addresses = await self._resolver.addresses(address.host)
            deadline = self._loop.now() + self._setup_s
            sock = await connect(self._loop, addresses, address.port, deadline=deadline)
            transport = await secure(self._loop, sock, address.host, self._options, deadline=deadline)
            await self._budget.take(self._loop)
            deadline = self._loop.now() + self._setup_s
            line = _Line(self._loop, address, self._budget, self._options, setup_s=self._setup_s)
            line.connection_made(transport)
            await line.initialize(timeout_at=deadline)
            await line.init_future
            self._require_open()
        except BaseException as problem:
            # Also when the loop ends in the middle of it: no socket stays behind.
            unseen = at_fault(classify(problem), self._options)
            if line is not None:
                line.close(unseen)
            if transport is not None:
                transport.abort()
            if not isinstance(problem, Exception):
                raise
            self._back_off(address, unseen)
            raise unseen from problem
        return line

    def _require_open(self) -> None:
        # A loop that ends lets what is ready run on: nobody would close what is opened then.
        if self._closed:
            raise UnseenError(Reason.CLOSED, "we hung up")

    def _back_off(self, address: Address, problem: UnseenError) -> None:
        before = self._backoff.get(address)
        failures = 1 if before is None else before.failures + 1
        # A refused login is tried less often: it may lock the account, and a controller logs a stack for each.
        first_s, most_s = (1.0, 5.0) if problem.reason in _PERSISTENT else (0.2, 1.0)
        delay = min(most_s, first_s * 2 ** (failures - 1))
        self._backoff[address] = _Backoff(failures, self._loop.now() + delay, problem)


def _unproven(line: _Line, problem: UnseenError) -> UnseenError:
    """A listener that wants SASL answers ApiVersions and then hangs up on the first real request."""
    if problem.reason is Reason.CLOSED and not line.proven and not line.sasl_enabled:
        detail = "it answers ApiVersions and then hangs up: does this listener want SASL (security_protocol)?"
        return UnseenError(Reason.NOT_AUTHENTICATED, detail)
    return problem
