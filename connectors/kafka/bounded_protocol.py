"""kafka-python's protocol with limits: a response is refused as soon as its announced size exceeds what was requested.

kafka-python reserves the announced size at once, has one limit for all responses, and decodes where it reads. Here the
limit is that of the oldest request in flight, the buffer grows with the bytes that arrive, the bytes are checked before
objects are built (`response_check`), and large responses are left to the connection, which decodes them in a thread.
"""

import io
import struct
from collections import deque
from dataclasses import dataclass
from functools import cache
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.api_header import RequestHeader, ResponseClassRegistry
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslBytesRequest

from connectors.errors import ObservationError
from connectors.kafka.response_check import check_response, refused
from connectors.kafka.response_limits import LIMITS, LOGIN_BYTES, max_response_bytes
from rules.model.monitoring import Reason

_PREFIX = 4
_NOT_KAFKA_BYTES = 2**28
"""A first response of this size is text or TLS: its first four bytes are no length."""


@dataclass(frozen=True, slots=True)
class _Expected:
    """The response to a request in flight."""

    correlation_id: int
    request: Any
    name: str
    max_bytes: int
    thread_from: int | None
    """Size from which it is decoded in a thread."""


@dataclass(frozen=True, slots=True)
class ReceivedResponse:
    """A whole response that is not decoded yet."""

    expected: _Expected
    content: memoryview

    def decode(self) -> Any:
        """Checks and decodes it. Thread-safe.

        Raises:
            ObservationError: INVALID_RESPONSE, if it is not what Kafka sends.
            ValueError: it cannot be decoded.
        """
        request, requested = self.expected.request, self.expected.correlation_id
        if isinstance(request, SaslBytesRequest):
            return request.header.decode(io.BytesIO(self.content))
        (correlation_id,) = struct.unpack_from(">i", self.content)
        if correlation_id != requested:
            raise refused(self.expected.name, f"the correlation id is {correlation_id}, requested was {requested}")
        response_class = _response_class(request.API_KEY, request.API_VERSION)
        body = check_response(
            self.content,
            api_key=request.API_KEY,
            name=self.expected.name,
            response_class=response_class,
            version=request.API_VERSION,
        )
        return response_class.decode(self.content[body:])


class BoundedProtocol(KafkaProtocol):  # type: ignore[misc]
    """The protocol state of one connection."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._expected: deque[_Expected] = deque()
        self._received = bytearray()
        self._decoded: list[tuple[int, Any]] = []
        self._responses = 0
        self.large: ReceivedResponse | None = None
        """A response to decode in a thread. Nothing after it is decoded before `accept_large`."""

    def send_request(self, request: Any, correlation_id: int | None = None) -> int:
        """Encodes and queues a request, and notes how large its response may be."""
        sent: int = super().send_request(request, correlation_id)
        self.in_flight_requests.clear()
        if request.expect_response():
            self._expected.append(_expected(sent, request))
        return sent

    def receive_bytes(self, data: bytes) -> list[tuple[int, Any]]:
        """Returns the responses that are complete now, with their correlation ids.

        Raises:
            ObservationError: INVALID_RESPONSE, naming the API, the announced and the accepted number.
            kafka.errors.InvalidReceiveError: the first bytes are no Kafka protocol.
        """
        self._received += data
        responses, self._decoded = self._decoded, []
        while self.large is None and (response := self._next()) is not None:
            thread_from = response.expected.thread_from
            if thread_from is not None and len(response.content) >= thread_from:
                self.large = response
            else:
                responses.append((response.expected.correlation_id, response.decode()))
        return responses

    def accept_large(self, decoded: Any) -> None:
        """Takes the decoded `large` response; the next `receive_bytes` returns it."""
        assert self.large is not None
        self._decoded.append((self.large.expected.correlation_id, decoded))
        self.large = None

    def _next(self) -> ReceivedResponse | None:
        """Returns the oldest response that is complete; None if it is not."""
        if not self._received:
            return None
        if not self._expected:
            raise ObservationError(Reason.INVALID_RESPONSE, "the node sent a response that was not requested")
        if len(self._received) < _PREFIX:
            return None
        (size,) = struct.unpack_from(">i", self._received)
        expected = self._expected[0]
        if not _PREFIX <= size <= expected.max_bytes:
            if self._responses == 0 and not 0 <= size < _NOT_KAFKA_BYTES:
                raise kafka_errors.InvalidReceiveError(f"Invalid frame length: {size}")
            raise refused(expected.name, f"a response of {size} bytes, at most {expected.max_bytes} are accepted")
        end = _PREFIX + size
        if len(self._received) < end:
            return None
        if len(self._received) == end:
            content, self._received = memoryview(self._received)[_PREFIX:], bytearray()
        else:
            content = memoryview(bytes(memoryview(self._received)[_PREFIX:end]))
            del self._received[:end]
        self._responses += 1
        return ReceivedResponse(self._expected.popleft(), content)


def _expected(correlation_id: int, request: Any) -> _Expected:
    if isinstance(request, SaslBytesRequest):
        return _Expected(correlation_id, request, "SASL", LOGIN_BYTES, None)
    name = request.name.removesuffix("Request")
    thread_from = LIMITS[request.API_KEY].built_in_thread_from
    return _Expected(correlation_id, request, name, max_response_bytes(request), thread_from)


@cache
def _response_class(api_key: int, version: int) -> Any:
    return ResponseClassRegistry.get_response_class(
        RequestHeader(request_api_key=api_key, request_api_version=version, correlation_id=0, client_id="")
    )
