"""One connection to a node: requests in flight with their time limits, the versions that both sides know, the login.

A listener with a session lifetime requires a new login on the same connection (KIP-368): it begins once every request
was answered, and the requests after it wait.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.metadata import ApiVersionsRequest

from connectors.errors import ObservationError
from connectors.kafka.bounded_protocol import BoundedProtocol
from connectors.kafka.error_code import ErrorCode
from connectors.kafka.event_loop import MOST_S, EventLoop, extension_s
from connectors.kafka.login import Login
from connectors.kafka.transport import PlainTransport

_SHORTEST_SESSION_S: Final = 1.0
_EARLIEST, _LATEST = 0.85, 0.95
"""The share of a session's lifetime after which the next login begins: not at the same time on all connections."""


@dataclass(slots=True)
class _InFlight:
    """A request that is not answered yet."""

    response: asyncio.Future[Any]
    due: float
    """Until when the node may answer (the loop's clock)."""
    left_s: float = MOST_S
    """By how much that may still be extended."""


class Connection:
    """A connection, from before it is opened until it is closed. It receives what the transport reads."""

    def __init__(self, loop: EventLoop, *, client_id: str, login: Login | None, on_request: Callable[[], None]) -> None:
        """`login`: None without SASL. `on_request` is called for each request that is sent."""
        self._loop = loop
        self._login = login
        self._on_request = on_request
        self._protocol = BoundedProtocol(client_id)
        self._transport: PlainTransport | None = None
        self._in_flight: deque[_InFlight] = deque()
        self._versions: BrokerVersionData | None = None
        self._version_of: dict[type[Any], int] = {}
        self._deadline: asyncio.TimerHandle | None = None
        """Ends the connection if a request is not answered in time; one timer for all of them."""
        self._deadline_at = 0.0
        self._next_login: asyncio.TimerHandle | None = None
        self._login_again: asyncio.Task[None] | None = None
        self._throttled_until = 0.0
        self._problem: Exception | None = None
        """Why the connection was closed."""
        self.has_served_request = False
        """True once the node answered a request other than ApiVersions and login."""

    @property
    def closed(self) -> bool:
        """Whether no request can be sent any more."""
        return self._problem is not None

    @property
    def logs_in(self) -> bool:
        """Whether the connection logs in (SASL)."""
        return self._login is not None

    @property
    def transport(self) -> PlainTransport:
        """The transport, once `initialize` was called."""
        assert self._transport is not None
        return self._transport

    async def initialize(self, transport: PlainTransport, host: str, due: float) -> None:
        """Asks the node for its versions until `due` (the loop's clock), and logs in.

        Raises:
            Exception: the failure, to be passed to `classify`.
        """
        self._transport = transport
        version, known = ApiVersionsRequest.max_version, None
        while known is None:
            request = ApiVersionsRequest(
                version=version, client_software_name="kraftwatch", client_software_version="1"
            )
            response = await self._send(request, due)
            listed = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
            if response.error_code == ErrorCode.NONE:
                known = listed
            elif response.error_code == ErrorCode.UNSUPPORTED_VERSION and version > 0:
                # An older node lists the versions that it knows (KIP-511).
                version = min(version - 1, listed.get(ApiVersionsRequest.API_KEY, (0, 0))[1])
            else:
                raise kafka_errors.for_code(response.error_code)()
        self._versions = BrokerVersionData(api_versions=known)
        if self._login is not None:
            await self._log_in(self._login, host)

    async def request(self, request: Any, seconds: float) -> Any:
        """Sends a request, in the newest version that both sides know, and returns the response.

        Raises:
            kafka.errors.IncompatibleBrokerVersion: the node does not know this request; nothing was sent.
            Exception: the failure, to be passed to `classify`; the connection has to be closed.
        """
        request.API_VERSION = self._version(request)
        due = self._loop.now() + seconds
        if (pause_s := self._throttled_until - self._loop.now()) > 0:
            # A quota of the node (KIP-219): it reads no request in the meantime.
            await self._loop.sleep(min(pause_s, seconds))
        if (running := self._login_again) is not None:
            await self._loop.wait_until(running.done, (running,), due - self._loop.now())
            if not running.done():
                raise kafka_errors.RequestTimedOutError
        return await self._send(request, due)

    def close(self, problem: Exception) -> None:
        """Closes the connection at once; the requests in flight fail."""
        if self._problem is not None:
            return
        self._problem = problem
        for timer in (self._deadline, self._next_login):
            if timer is not None:
                timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        for request in self._in_flight:
            if not request.response.done():
                request.response.set_exception(problem)
        self._in_flight.clear()

    def received(self, data: bytes) -> None:
        """Takes bytes of the node: its next responses, or what cannot be one."""
        try:
            responses = self._protocol.decoded(data)
        except Exception as problem:  # noqa: BLE001 - whatever the node sent, the connection must end
            self.close(_without_content(problem))
            return
        for response in responses:
            throttled_ms = getattr(response, "throttle_time_ms", 0)
            if throttled_ms:
                self._throttled_until = self._loop.now() + throttled_ms / 1000
            answered = self._in_flight.popleft().response
            if not answered.done():
                answered.set_result(response)

    def lost(self, problem: Exception) -> None:
        """Learns that the connection has ended."""
        self.close(problem)

    def _version(self, request: Any) -> int:
        kind = type(request)
        version = self._version_of.get(kind)
        if version is None:
            assert self._versions is not None
            version = self._version_of[kind] = self._versions.api_version(request)
        return version

    def _send(self, request: Any, due: float) -> asyncio.Future[Any]:
        """Sends a request whose version is set, and returns the future of its response."""
        if self._problem is not None:
            raise self._problem
        if due <= self._loop.now():
            raise kafka_errors.KafkaTimeoutError
        self._on_request()
        self.transport.write(self._protocol.encoded(request))
        sent = _InFlight(self._loop.asyncio.create_future(), due)
        self._in_flight.append(sent)
        if self._deadline is None or self._deadline_at > due:
            self._watch()
        return sent.response

    def _watch(self) -> None:
        """Sets the timer to the time at which the first of the requests in flight is due."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline_at = min(request.due for request in self._in_flight)
        self._deadline = self._loop.call_later(self._deadline_at - self._loop.now(), self._end_if_due)

    def _end_if_due(self) -> None:
        """Closes the connection if a request is not answered in time; a loop that is late gives it as much longer."""
        self._deadline, now = None, self._loop.now()
        for request in self._in_flight:
            if (late_s := now - request.due) >= 0:
                longer_s = extension_s(late_s=late_s, left_s=request.left_s)
                if not longer_s:
                    self.close(kafka_errors.RequestTimedOutError())
                    return
                request.due, request.left_s = now + longer_s, request.left_s - longer_s
        if self._in_flight:
            self._watch()

    async def _log_in(self, login: Login, host: str) -> None:
        lifetime_s = await login.run(host, self._version, self._send)
        if lifetime_s > 0:
            after_s = max(lifetime_s, _SHORTEST_SESSION_S) * random.uniform(_EARLIEST, _LATEST)  # noqa: S311
            self._next_login = self._loop.call_later(after_s, partial(self._begin_login, login, host))

    def _begin_login(self, login: Login, host: str) -> None:
        if self._problem is None:
            self._login_again = self._loop.spawn(self._renew(login, host))

    async def _renew(self, login: Login, host: str) -> None:
        try:
            while self._in_flight:
                await asyncio.wait([request.response for request in self._in_flight])
            await self._log_in(login, host)
        except Exception as problem:  # noqa: BLE001 - whatever the reason, the next request logs in on a new connection
            self.close(problem)
        finally:
            self._login_again = None


def _without_content(problem: Exception) -> Exception:
    """Returns the error of a response that cannot be used, without the bytes that the frames of its traceback hold."""
    match problem:
        case ObservationError():
            return problem.copy()
        case kafka_errors.KafkaError():
            same: Exception = type(problem)(*problem.args)
            return same
        case _:
            unknown: Exception = kafka_errors.KafkaProtocolError(f"{type(problem).__name__} while decoding")
            return unknown
