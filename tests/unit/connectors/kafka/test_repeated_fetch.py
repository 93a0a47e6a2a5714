"""A repeated Fetch response is read without kafka-python, and never read differently from how kafka-python reads it."""

import struct
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from connectors.errors import ObservationError
from connectors.kafka.bounded_protocol import BoundedProtocol
from connectors.kafka.messages import FetchResult, empty_fetch_request, parse_fetch
from connectors.kafka.repeated_fetch import RepeatedFetchResponse
from tests.bench.farm_answers import NODES, ClusterAnswers

CONTROLLERS = {node: (f"c{node}.example", 9093) for node in NODES}
ANSWERS = ClusterAnswers("some-cluster-000000000", CONTROLLERS, epoch=3)
OFFSETS = st.integers(-(2**63), 2**63 - 1)


def received(protocol: BoundedProtocol, body: bytes, *, version: int = 18, correlation_id: int | None = None) -> Any:
    """Returns the response to a Fetch of this connection, decoded; the error of one that is refused."""
    request = empty_fetch_request(None)
    request.API_VERSION = version
    sent = protocol.send_request(request)
    answer = struct.pack(">ib", sent if correlation_id is None else correlation_id, 0) + body
    try:
        ((_, response),) = protocol.receive_bytes(struct.pack(">i", len(answer)) + answer)
    except (ObservationError, ValueError) as problem:
        return str(problem)
    return response


def parsed(response: Any) -> FetchResult | str:
    if isinstance(response, str):
        return response
    try:
        return parse_fetch(response)
    except ObservationError as problem:
        return str(problem)


def connection(first: bytes, *, version: int = 18) -> BoundedProtocol:
    """A connection that has received this response."""
    protocol = BoundedProtocol(client_id="test")
    received(protocol, first, version=version)
    return protocol


FIRST = ANSWERS.fetch(high_watermark=7, records=b"some records")


@given(high_watermark=OFFSETS, records=st.binary(max_size=300))
def test_repeated_response_is_what_kafka_python_reads(high_watermark: int, records: bytes) -> None:
    body = ANSWERS.fetch(high_watermark=high_watermark, records=records)
    repeated = received(connection(FIRST), body)
    assert isinstance(repeated, RepeatedFetchResponse)
    assert parsed(repeated) == parsed(received(BoundedProtocol(client_id="test"), body))


@given(
    at=st.integers(0, len(FIRST) - 1),
    replaced=st.integers(0, 3),
    by=st.binary(max_size=3),
    records=st.binary(max_size=200),
)
@example(at=0, replaced=0, by=b"", records=b"")
def test_changed_response_is_read_or_refused_as_by_kafka_python(
    at: int, replaced: int, by: bytes, records: bytes
) -> None:
    body = ANSWERS.fetch(high_watermark=9, records=records)
    changed = body[:at] + by + body[at + replaced :]
    assert parsed(received(connection(FIRST), changed)) == parsed(received(BoundedProtocol(client_id="test"), changed))


@given(first=st.sampled_from((ANSWERS.not_leading_fetch, ANSWERS.fenced_fetch)), records=st.binary(max_size=50))
def test_an_error_is_not_repeated(first: bytes, records: bytes) -> None:
    assert not isinstance(received(connection(first), first), RepeatedFetchResponse)
    body = ANSWERS.fetch(high_watermark=9, records=records)
    assert parsed(received(connection(first), body)) == parsed(received(BoundedProtocol(client_id="test"), body))


def test_another_leader_is_read_from_the_response() -> None:
    other = ClusterAnswers("some-cluster-000000000", CONTROLLERS, leader=2, epoch=4)
    result = parsed(received(connection(FIRST), other.fetch(high_watermark=9, records=b"")))
    assert isinstance(result, FetchResult)
    assert (result.leader_id, result.leader_epoch) == (2, 4)


def test_another_correlation_id_is_refused() -> None:
    protocol = connection(FIRST)
    refused = received(protocol, FIRST, correlation_id=99)
    assert refused == "invalid-response: Fetch: the correlation id is 99, requested was 2"
