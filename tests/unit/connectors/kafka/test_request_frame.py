"""Requests are encoded to the same bytes as kafka-python's own."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.kafka.bounded_protocol import BoundedProtocol
from connectors.kafka.cluster_id_lookup import describe_cluster_request
from connectors.kafka.kafka_python import FetchRequest, KafkaProtocol
from connectors.kafka.messages import (
    describe_node_request,
    describe_quorum_request,
    fetch_request,
    fetch_snapshot_request,
)
from rules.model.identifiers import SnapshotId

INT32, INT64 = st.integers(-1, 2**31 - 1), st.integers(-1, 2**63 - 1)


def frame(protocol: type[KafkaProtocol], request: Any) -> bytes:
    connection = protocol(client_id="kraftwatch")
    connection.send_request(request, correlation_id=77)
    return bytes(connection.send_bytes())


@given(
    version=st.integers(12, 18),
    cluster_id=st.none() | st.text(min_size=1, max_size=30),
    leader_epoch=INT32,
    offset=INT64,
    last_epoch=INT32,
    high_watermark=st.none() | INT64,
    max_wait_ms=INT32,
    max_bytes=st.sampled_from((1, 8 * 1024 * 1024)),
)
def test_fetch_is_encoded_as_by_kafka_python(version: int, **fields: Any) -> None:
    def request() -> Any:
        built = fetch_request(**fields)
        built.API_VERSION = version
        return built

    expected = request()
    reference = FetchRequest.encode
    expected.with_header(correlation_id=77, client_id="kraftwatch")
    for _ in range(2):
        assert frame(BoundedProtocol, request()) == reference(expected, version=version, header=True, framed=True)


@pytest.mark.parametrize(
    ("request_of", "version"),
    [
        *((describe_quorum_request, version) for version in (0, 1, 2)),
        *((lambda: describe_cluster_request(controllers=True), version) for version in (1, 2)),
        *((lambda: describe_node_request(3), version) for version in (1, 4)),
        (
            lambda: fetch_snapshot_request(
                cluster_id="x", leader_epoch=4, snapshot=SnapshotId(end_offset=5, epoch=2), position=9, max_bytes=7
            ),
            1,
        ),
    ],
)
def test_other_requests_are_encoded_as_by_kafka_python(request_of: Any, version: int) -> None:
    ours, reference = request_of(), request_of()
    ours.API_VERSION = reference.API_VERSION = version
    assert frame(BoundedProtocol, ours) == frame(KafkaProtocol, reference)
