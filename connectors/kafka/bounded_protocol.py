"""kafka-python's protocol with limits: a response is refused as soon as its announced size exceeds what was requested.

kafka-python reserves the announced size at once, has one limit for all responses, and accepts a response that is longer
or shorter than its fields. Here the limit is that of the oldest request in flight, and the buffer grows with the bytes
that arrive. An array may announce any number of elements: besides the records, the bytes that hold them are few.
"""

import io
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

from kafka import errors as kafka_errors
from kafka.protocol.api_header import RequestHeader, ResponseClassRegistry
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslBytesRequest

from connectors.kafka.response_limits import MAX_RESPONSE_BYTES, invalid, max_response_bytes
from connectors.kafka.schemas import FetchSnapshotRequest
from connectors.metadata.field_readers import uvarint

_Decoder: TypeAlias = "Callable[[memoryview, int], tuple[Any, int]]"
"""Reads a response at a position, and returns it and the position after it."""
_PREFIX = 4
"""The size of the length, and of the correlation id."""
_NOT_KAFKA_BYTES = 2**28
"""A first response of this size is text or TLS: its first four bytes are no length."""
_UNSUPPORTED_VERSION: Final = 35
_HEADER_TAGS: Final = 100
_UUID_SINCE: Final = 13
"""From this version on a Fetch names the topic by its id."""


@dataclass(frozen=True, slots=True)
class _Expected:
    """The response to a request in flight."""

    correlation_id: int
    request: Any
    name: str
    max_bytes: int


class BoundedProtocol(KafkaProtocol):  # type: ignore[misc]
    """The protocol state of one connection."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._expected: deque[_Expected] = deque()
        self._received = bytearray()
        self._responses = 0

    def send_request(self, request: Any, correlation_id: int | None = None) -> int:
        """Encodes and queues a request, and notes how large its response may be."""
        sent: int = super().send_request(request, correlation_id)
        self.in_flight_requests.clear()
        if request.expect_response():
            name = "SASL" if isinstance(request, SaslBytesRequest) else request.name.removesuffix("Request")
            self._expected.append(_Expected(sent, request, name, max_response_bytes(request)))
        return sent

    def receive_bytes(self, data: bytes) -> list[tuple[int, Any]]:
        """Returns the responses that are complete now, with their correlation ids.

        Raises:
            ObservationError: INVALID_RESPONSE, naming the API, the announced and the accepted number.
            kafka.errors.InvalidReceiveError: the first bytes are no Kafka protocol.
        """
        self._received += data
        responses = []
        while (response := self._next()) is not None:
            expected, content = response
            responses.append((expected.correlation_id, _decoded(expected, content)))
        return responses

    def _next(self) -> tuple[_Expected, memoryview] | None:
        """Returns the oldest response that is complete; None if it is not."""
        if not self._received:
            return None
        if not self._expected:
            raise invalid("the node sent a response that was not requested")
        if len(self._received) < _PREFIX:
            return None
        (size,) = struct.unpack_from(">i", self._received)
        expected = self._expected[0]
        if not _PREFIX <= size <= expected.max_bytes:
            if self._responses == 0 and not 0 <= size < _NOT_KAFKA_BYTES:
                raise kafka_errors.InvalidReceiveError(f"Invalid frame length: {size}")
            raise invalid(f"{expected.name}: a response of {size} bytes, at most {expected.max_bytes} are accepted")
        end = _PREFIX + size
        if len(self._received) < end:
            return None
        if len(self._received) == end:
            content, self._received = memoryview(self._received)[_PREFIX:], bytearray()
        else:
            content = memoryview(bytes(memoryview(self._received)[_PREFIX:end]))
            del self._received[:end]
        self._responses += 1
        return self._expected.popleft(), content


def _decoded(expected: _Expected, content: memoryview) -> Any:
    """Decodes a response without its length.

    Raises:
        ObservationError: INVALID_RESPONSE, if it is not what Kafka sends.
    """
    request, name = expected.request, expected.name
    if isinstance(request, SaslBytesRequest):
        return request.header.decode(io.BytesIO(content))
    (correlation_id,) = struct.unpack_from(">i", content)
    if correlation_id != expected.correlation_id:
        raise invalid(f"{name}: the correlation id is {correlation_id}, requested was {expected.correlation_id}")
    try:
        decode, position = _body(request, content)
        others = len(content) - _records_size(content, position, request)
        response, end = decode(content, position) if others <= MAX_RESPONSE_BYTES else (None, 0)
    except Exception as problem:  # noqa: BLE001 - whatever the node sent, it is no response
        raise invalid(f"{name}: the response cannot be decoded ({type(problem).__name__})") from None
    if response is None:
        raise invalid(f"{name}: {others} bytes besides the records, at most {MAX_RESPONSE_BYTES} are accepted")
    if end != len(content):
        raise invalid(f"{name}: the response has {len(content)} bytes, its fields have {end}")
    return response


def _body(request: Any, content: memoryview) -> tuple[_Decoder, int]:
    """Returns the decoder of a response and the position of its body, the end of its header."""
    flexible, decode = _decoder(request.API_KEY, request.API_VERSION)
    if request.API_KEY != ApiVersionsRequest.API_KEY:
        return decode, _after_tags(content, _PREFIX) if flexible else _PREFIX
    # Its header has no tagged fields in any version, and an unknown version is answered in version 0 (KIP-511).
    if struct.unpack_from(">h", content, _PREFIX)[0] == _UNSUPPORTED_VERSION:
        _, decode = _decoder(request.API_KEY, 0)
    return decode, _PREFIX


@cache
def _decoder(api_key: int, version: int) -> tuple[bool, _Decoder]:
    """Returns whether a response of this version has tagged fields, and kafka-python's decoder."""
    header = RequestHeader(request_api_key=api_key, request_api_version=version, correlation_id=0, client_id="")
    response_class = ResponseClassRegistry.get_response_class(header)[None]
    flexible = response_class.flexible_version_q(version)
    decode = response_class._struct.compiled_decode_from(
        version, compact=flexible, tagged=flexible, data_class=response_class
    )
    return flexible, decode


def _after_tags(content: memoryview, position: int) -> int:
    """Returns the position after the tagged fields of a header."""
    count, position = uvarint(content, position)
    if count > _HEADER_TAGS:
        raise ValueError
    for _ in range(count):
        _, position = uvarint(content, position)
        size, position = uvarint(content, position)
        position += size
    return position


def _records_size(content: memoryview, position: int, request: Any) -> int:
    """Returns the size of the records in a Fetch or FetchSnapshot response, whose body begins at this position.

    One partition of one topic is requested; a response without it, or of another API, has no records.
    """
    is_fetch = request.API_KEY == FetchRequest.API_KEY
    if not is_fetch and request.API_KEY != FetchSnapshotRequest.API_KEY:
        return 0
    # The throttle time and the error; of a Fetch the session.
    topics, position = uvarint(content, position + (10 if is_fetch else 6))
    if topics <= 1:
        return 0
    if is_fetch and request.API_VERSION >= _UUID_SINCE:
        position += 16
    else:
        name_size, position = uvarint(content, position)
        position += name_size - 1
    partitions, position = uvarint(content, position)
    if partitions <= 1:
        return 0
    if is_fetch:
        # The partition's number, error and three offsets; aborted transactions, which were not requested; a replica.
        aborted, position = uvarint(content, position + 30)
        unexpected, position = aborted > 1, position + 4
    else:
        # The partition's number, its error and the snapshot's id, which has no tags; the file's size and a position.
        unexpected, position = content[position + 18] > 0, position + 35
    size, position = uvarint(content, position)
    if unexpected or position + size - 1 > len(content):
        raise ValueError
    return max(0, size - 1)
