"""The frames of one connection, with limits: a response is refused as soon as its announced size exceeds its request's.

kafka-python encodes and decodes the messages. Its own reader of frames reserves the announced size at once, has one
limit for all responses, and accepts a response that is longer or shorter than its fields. Here the limit is that of the
oldest request in flight, and the buffer grows with the bytes that arrive. An array may announce any number of elements:
besides the records, the bytes that hold them are few.
"""

import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias

from kafka import errors as kafka_errors
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from connectors.kafka.error_code import ErrorCode
from connectors.kafka.response_limits import MAX_RESPONSE_BYTES, invalid, max_response_bytes
from connectors.kafka.schemas import FetchSnapshotRequest, FetchSnapshotResponse
from connectors.metadata.field_readers import uvarint

_Decoder: TypeAlias = "Callable[[memoryview, int], tuple[Any, int]]"
"""Reads a response at a position, and returns it and the position after it."""
_RESPONSES: Final[dict[Any, Any]] = {
    ApiVersionsRequest: ApiVersionsResponse,
    DescribeClusterRequest: DescribeClusterResponse,
    DescribeConfigsRequest: DescribeConfigsResponse,
    DescribeQuorumRequest: DescribeQuorumResponse,
    FetchRequest: FetchResponse,
    FetchSnapshotRequest: FetchSnapshotResponse,
    SaslAuthenticateRequest: SaslAuthenticateResponse,
    SaslHandshakeRequest: SaslHandshakeResponse,
}
"""Every request that kraftwatch's Kafka client sends: none writes."""
_FETCH: Final = int(FetchRequest.API_KEY)
_FETCH_SNAPSHOT: Final = int(FetchSnapshotRequest.API_KEY)
_API_VERSIONS: Final = int(ApiVersionsRequest.API_KEY)
_PREFIX = 4
"""The size of the length, and of the correlation id."""
_FRAME: Final = struct.Struct(">ihhih")
"""Length, API key, version, correlation id, and the length of the client's id."""
_CORRELATION_IDS: Final = 2**31
_NOT_KAFKA_BYTES = 2**28
"""A first response of this size is text or TLS: its first four bytes are no length."""
_HEADER_TAGS: Final = 100
_USUAL_API_VERSIONS: Final = 4096
"""More bytes than Kafka's ApiVersions response has."""
_UUID_SINCE: Final = 13
"""From this version on a Fetch names the topic by its id."""


@dataclass(frozen=True, slots=True)
class _Exchange:
    """One version of a request and its response."""

    name: str
    key: int
    version: int
    request_tags: bytes
    """The tagged fields in the header of the request: none, or their number."""
    has_tags: bool
    """Whether the header of the response has tagged fields."""
    decode: _Decoder


@dataclass(frozen=True, slots=True)
class _Expected:
    """The response to a request in flight."""

    correlation_id: int
    exchange: _Exchange
    max_bytes: int


class BoundedProtocol:
    """The frames of one connection. Responses arrive in the order of their requests."""

    def __init__(self, client_id: str) -> None:
        """`client_id` is in each request."""
        self._client_id = client_id.encode()
        self._expected: deque[_Expected] = deque()
        self._received = bytearray()
        self._requests = 0
        self._responses = 0

    def encoded(self, request: Any) -> bytes:
        """Returns the frame of a request, whose API_VERSION is set, and notes how large its response may be."""
        kind: Any = type(request)
        exchange = _exchange(kind, request.API_VERSION)
        self._requests = (self._requests + 1) % _CORRELATION_IDS
        client_id, body = self._client_id, request.encode()
        header = _FRAME.pack(
            _FRAME.size - _PREFIX + len(client_id) + len(exchange.request_tags) + len(body),
            exchange.key,
            exchange.version,
            self._requests,
            len(client_id),
        )
        self._expected.append(_Expected(self._requests, exchange, max_response_bytes(request)))
        return b"".join((header, client_id, exchange.request_tags, body))

    def decoded(self, data: bytes) -> list[Any]:
        """Returns the responses that are complete with these bytes, in the order of their requests.

        Raises:
            ObservationError: INVALID_RESPONSE, naming the API, the announced and the accepted number.
            kafka.errors.InvalidReceiveError: the first bytes are no Kafka protocol.
        """
        self._received += data
        responses = []
        while (response := self._next()) is not None:
            responses.append(_decoded(*response))
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
            name = expected.exchange.name
            raise invalid(f"{name}: a response of {size} bytes, at most {expected.max_bytes} are accepted")
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
    exchange, name = expected.exchange, expected.exchange.name
    (correlation_id,) = struct.unpack_from(">i", content)
    if correlation_id != expected.correlation_id:
        raise invalid(f"{name}: the correlation id is {correlation_id}, requested was {expected.correlation_id}")
    try:
        if exchange.key == _API_VERSIONS:
            response, end = _api_versions(exchange.version, bytes(content[_PREFIX:]))
            end, others = _PREFIX + end, len(content)
        else:
            position = _after_tags(content, _PREFIX) if exchange.has_tags else _PREFIX
            others = len(content) - _records_size(content, position, exchange)
            response, end = exchange.decode(content, position) if others <= MAX_RESPONSE_BYTES else (None, 0)
    except Exception as problem:  # noqa: BLE001 - whatever the node sent, it is no response
        raise invalid(f"{name}: the response cannot be decoded ({type(problem).__name__})") from None
    if response is None:
        raise invalid(f"{name}: {others} bytes besides the records, at most {MAX_RESPONSE_BYTES} are accepted")
    if end != len(content):
        raise invalid(f"{name}: the response has {len(content)} bytes, its fields have {end}")
    return response


def _api_versions(version: int, body: bytes) -> tuple[Any, int]:
    """Returns an ApiVersions response without its header, and where it ends."""
    if len(body) > _USUAL_API_VERSIONS:
        return _decoded_api_versions(version, body)
    return _known_api_versions(version, body)


def _decoded_api_versions(version: int, body: bytes) -> tuple[Any, int]:
    # Its header has no tagged fields in any version, and an unknown version is answered in version 0 (KIP-511).
    if struct.unpack_from(">h", body)[0] == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    return _exchange(ApiVersionsRequest, version).decode(memoryview(body), 0)


_known_api_versions = lru_cache(maxsize=16)(_decoded_api_versions)
"""All nodes of a Kafka version send the same on each connection, and decoding it takes as long as ten other answers."""


@cache
def _exchange(request_class: Any, version: int) -> _Exchange:
    response_class = _RESPONSES[request_class]
    flexible = response_class.flexible_version_q(version)
    return _Exchange(
        name=request_class.name.removesuffix("Request"),
        key=request_class.API_KEY,
        version=version,
        request_tags=b"\0" if request_class.flexible_version_q(version) else b"",
        has_tags=flexible,
        # The public `decode` does not return where the response ends.
        decode=response_class._struct.compiled_decode_from(
            version, compact=flexible, tagged=flexible, data_class=response_class
        ),
    )


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


def _records_size(content: memoryview, position: int, exchange: _Exchange) -> int:
    """Returns the size of the records in a Fetch or FetchSnapshot response, whose body begins at this position.

    One partition of one topic is requested; a response without it, or of another API, has no records.
    """
    is_fetch = exchange.key == _FETCH
    if not is_fetch and exchange.key != _FETCH_SNAPSHOT:
        return 0
    # The throttle time and the error; of a Fetch the session.
    topics, position = uvarint(content, position + (10 if is_fetch else 6))
    if topics <= 1:
        return 0
    if is_fetch and exchange.version >= _UUID_SINCE:
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
