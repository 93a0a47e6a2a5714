"""Encoded requests have replica id -1 in every version; parsed responses have None for absent values."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.admin import DescribeQuorumRequest
from kafka.protocol.consumer import FetchRequest, FetchResponse

from connectors.kafka.cluster_connection import Address
from connectors.kafka.error_code import ErrorCode
from connectors.kafka.messages import (
    FetchResult,
    FetchSnapshotResult,
    describe_quorum_request,
    fetch_request,
    fetch_snapshot_request,
    parse_describe_quorum,
    parse_fetch,
    parse_fetch_snapshot,
)
from connectors.kafka.schemas import FetchSnapshotRequest, FetchSnapshotResponse
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey, SnapshotId
from rules.model.monitoring import Reason
from rules.model.replica import Poll, Replica
from tests.unit.connectors.kafka.kafka_answers import (
    PARTITION,
    fetch_answer,
    node_row,
    quorum_answer,
    received,
    replica_row,
)
from tests.unit.connectors.observation_failure import failure_of

ADDRESS = Address("c1", 9093)


FETCH: dict[str, Any] = {
    "cluster_id": "the-cluster",
    "leader_epoch": 4,
    "offset": 10,
    "last_epoch": 3,
    "high_watermark": 9,
    "max_wait_ms": 500,
    "max_bytes": 1000,
}


def encoded_fetch(version: int, **more: Any) -> Any:
    request = fetch_request(**{**FETCH, **more})
    return FetchRequest.decode(request.encode(version=version), version=version)


@pytest.mark.parametrize("version", range(12, 19))
def test_whole_fetch_in_every_version(version: int) -> None:
    """Replica id -1 and no directory id, so that the leader does not list it."""
    topic = {"topic_id": "00000000-0000-0000-0000-000000000001"} if version >= 13 else {"topic": "__cluster_metadata"}
    partition = {
        "partition": 0,
        "current_leader_epoch": 4,
        "fetch_offset": 10,
        "last_fetched_epoch": 3,
        "log_start_offset": -1,
        "partition_max_bytes": 1000,
        **({"replica_directory_id": None} if version >= 17 else {}),
        **({"high_watermark": 9} if version >= 18 else {}),
    }
    assert fetch_request(**FETCH).API_KEY == 1
    assert encoded_fetch(version).to_dict() == {
        "cluster_id": "the-cluster",
        **({"replica_state": None} if version >= 15 else {"replica_id": -1}),
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 1000,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{**topic, "partitions": [partition]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


def test_unknown_high_watermark_is_sent_as_minus_one() -> None:
    assert encoded_fetch(18, high_watermark=None).topics[0].partitions[0].high_watermark == -1


@pytest.mark.parametrize(("version", "cluster_id"), [(0, "the-cluster"), (1, "the-cluster"), (1, None)])
def test_whole_fetch_of_a_snapshot_in_every_version(version: int, cluster_id: str | None) -> None:
    request = fetch_snapshot_request(
        cluster_id=cluster_id,
        leader_epoch=4,
        snapshot=SnapshotId(end_offset=50, epoch=3),
        position=7,
        max_bytes=1000,
    )
    partition = {
        "partition": 0,
        "current_leader_epoch": 4,
        "snapshot_id": {"end_offset": 50, "epoch": 3},
        "position": 7,
        **({"replica_directory_id": None} if version == 1 else {}),
    }
    read = FetchSnapshotRequest.decode(request.encode(version=version), version=version)
    assert read.to_dict() == {
        "cluster_id": cluster_id,
        "replica_id": -1,
        "max_bytes": 1000,
        "topics": [{"name": "__cluster_metadata", "partitions": [partition]}],
    }


def test_bytes_of_a_fetch_of_a_snapshot_are_those_of_kafkas_schemas() -> None:
    """Version 1 in Kafka 4.3.1: a tag has its number, its size and its value."""
    snapshot = SnapshotId(end_offset=50, epoch=3)
    request = fetch_snapshot_request(cluster_id="it", leader_epoch=4, snapshot=snapshot, position=7, max_bytes=1000)
    ids = "ffffffff 000003e8"
    partition = "00000000 00000004 0000000000000032 00000003 00 0000000000000007"
    topic = f"02 13 {b'__cluster_metadata'.hex()} 02 {partition}"
    assert request.encode(version=1) == bytes.fromhex(f"{ids} {topic} 00 00 01 00 03 03 {b'it'.hex()}")
    directory = "01 00 10 00000000000000000000000000000007"
    of_a_replica = FetchSnapshotRequest.decode(bytes.fromhex(f"{ids} {topic} {directory} 00 00"), version=1)
    assert of_a_replica.topics[0].partitions[0].replica_directory_id == UUID(int=7)

    piece = "0000000000000032 00000003 00 00000000000001f4 0000000000000007 04 616263"
    leader, node = "01 00 09 00000002 00000004 00", "01 00 0c 02 00000002 03 6332 9c40 00"
    answer = f"00000000 0000 02 13 {b'__cluster_metadata'.hex()} 02 00000000 0000 {piece} {leader} 00 {node}"
    response = FetchSnapshotResponse.decode(bytes.fromhex(answer), version=1)
    assert parse_fetch_snapshot(response) == FetchSnapshotResult(error=0, size=500, position=7, records=b"abc")
    current, (endpoint,) = response.topics[0].partitions[0].current_leader, response.node_endpoints
    assert (current.leader_id, current.leader_epoch) == (2, 4)
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (2, "c2", 40_000)


@pytest.mark.parametrize(("version", "at"), [(13, Address("c2", 9093)), (17, None)])
def test_reported_leader_may_have_no_address(version: int, at: Address | None) -> None:
    answer = parse_fetch(received(fetch_answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=2, at=at), version))
    assert (answer.leader_id, answer.leader, answer.high_watermark) == (2, None, None)


def test_a_node_that_does_not_lead_and_names_itself_has_resigned() -> None:
    at = Address("c2", 9093)
    response = received(fetch_answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=2, at=at), 17)
    assert parse_fetch(response, at).leader_id is None
    assert parse_fetch(response, Address("c1", 9093)).leader_id == 2
    old_epoch = received(fetch_answer(error=ErrorCode.FENCED_LEADER_EPOCH, leader=2, at=at), 17)
    assert parse_fetch(old_epoch, at).leader_id == 2, "it leads, in a newer epoch"


def test_a_leader_that_cannot_read_its_log_names_itself() -> None:
    answer = parse_fetch(received(fetch_answer(error=ErrorCode.UNKNOWN_SERVER_ERROR, leader=2), 17))
    assert (answer.error, answer.leader_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, 2)


@pytest.mark.parametrize(
    ("top", "error", "reason"),
    [
        (31, 0, Reason.DENIED),
        (-1, 0, Reason.NOT_READY),
        (104, 0, Reason.WRONG_CLUSTER),
        (0, -1, Reason.NOT_READY),
        (0, 1, Reason.UNSUPPORTED),
        (0, 100, Reason.UNSUPPORTED),
        (0, 42, Reason.UNSUPPORTED),
    ],
)
def test_errors_unrelated_to_the_leader_are_classified(top: int, error: int, reason: Reason) -> None:
    assert failure_of(lambda: parse_fetch(fetch_answer(top=top, error=error))).reason is reason


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"error": 6}, Reason.NO_LEADER),
        ({"leader": -1}, Reason.NO_LEADER),
        ({"top": 31}, Reason.DENIED),
        ({"top": -1}, Reason.NOT_READY),
        ({"error": 7}, Reason.TIMED_OUT),
    ],
)
def test_poll_without_a_leader_is_classified(answer: dict[str, Any], reason: Reason) -> None:
    def parsed(**answer: Any) -> Poll:
        return parse_describe_quorum(quorum_answer(**answer), cluster_id=None, address=ADDRESS)

    assert failure_of(lambda: parsed(**answer)).reason is reason
    assert parsed(leader=0).leader_id == 0


@pytest.mark.parametrize("version", [0, 1, 2])
def test_poll_requests_the_metadata_partition_in_every_version(version: int) -> None:
    request = describe_quorum_request()
    assert request.API_KEY == 55
    assert DescribeQuorumRequest.decode(request.encode(version=version), version=version).to_dict() == {
        "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    }


def replica(node: int, directory: str | None, *numbers: int | None) -> Replica:
    end, fetched, caught_up = numbers
    return Replica(
        key=ReplicaKey(id=NodeId(node), directory_id=None if directory is None else DirectoryId(directory)),
        log_end_offset=None if end is None else Offset(end),
        last_fetch_ms=None if fetched is None else Millis(fetched),
        last_caught_up_ms=None if caught_up is None else Millis(caught_up),
    )


@pytest.mark.parametrize(("version", "high_watermark"), [(0, 234_130), (1, 234_130), (2, 234_130), (2, -1)])
def test_whole_poll_in_every_version(version: int, high_watermark: int) -> None:
    """Two replicas have the same node id, and the leader is no voter; -1 and the zero UUID are unknown.

    A new leader may know no high watermark, and a quorum may have no observers.
    """
    is_new = high_watermark < 0
    answer = quorum_answer(
        leader=4,
        epoch=17,
        high_watermark=high_watermark,
        voters=[
            replica_row(3, b"\xfb\xff" * 8, 234_134, 203, 303),
            replica_row(0, b"\xa0" * 16, 0, 0, 0),
            replica_row(2, bytes(16), -1, -1, -1),
        ],
        observers=[
            replica_row(4, b"\xa4" * 16, 234_135, 204, 304),
            replica_row(2, b"\xb2" * 16, 22, 222, 322),
            replica_row(101, b"\xc1" * 16, 2**40, 2, -1),
        ][: 0 if is_new else None],
        nodes=[node_row(3, ("B", "c3", 40_123), ("A", "fd00::3", 9093)), node_row(0, ("A", "c0", 1)), node_row(2)],
    )

    def seen(one: Replica) -> Replica:
        key = one.key if version == 2 else ReplicaKey(id=one.key.id)
        return replace(one, key=key) if version else replace(one, key=key, last_fetch_ms=None, last_caught_up_ms=None)

    voters = (
        replica(3, "-__7__v_-__7__v_-__7_w", 234_134, 203, 303),
        replica(0, "oKCgoKCgoKCgoKCgoKCgoA", 0, 0, 0),
        replica(2, None, None, None, None),
    )
    observers = (
        replica(4, "pKSkpKSkpKSkpKSkpKSkpA", 234_135, 204, 304),
        replica(2, "srKysrKysrKysrKysrKysg", 22, 222, 322),
        replica(101, "wcHBwcHBwcHBwcHBwcHBwQ", 2**40, 2, None),
    )
    listed = {
        NodeId(3): (
            Endpoint(listener="B", host="c3", port=40_123),
            Endpoint(listener="A", host="fd00::3", port=9093),
        ),
        NodeId(0): (Endpoint(listener="A", host="c0", port=1),),
        NodeId(2): (),
    }
    assert parse_describe_quorum(received(answer, version), cluster_id="the-cluster", address=ADDRESS) == Poll(
        cluster_id="the-cluster",
        endpoint="c1:9093",
        leader_id=NodeId(4),
        leader_epoch=Epoch(17),
        high_watermark=None if is_new else Offset(high_watermark),
        voters=tuple(map(seen, voters)),
        observers=() if is_new else tuple(map(seen, observers)),
        nodes=listed if version == 2 else {},
    )


@pytest.mark.parametrize("error", [0, 6, 74, 75])
def test_whole_response_of_a_fetch(error: int) -> None:
    """Node 0 leads; the other partition and the endpoints of other nodes are not of interest."""

    def partition(index: int) -> Any:
        return fetch_answer(
            error=error,
            leader=index,
            epoch=21 + index,
            high_watermark=51 + index,
            last_stable_offset=61,
            log_start_offset=41 + index,
            diverging_epoch=PARTITION.EpochEndOffset(epoch=11, end_offset=31 + index),
            snapshot_id=PARTITION.SnapshotId(end_offset=71 + index, epoch=12),
            aborted_transactions=[PARTITION.AbortedTransaction(producer_id=901, first_offset=902)],
            records=b"abc" if index == 0 else b"other",
            partition_index=index,
        )

    answer = partition(0)
    answer.responses[0].partitions.insert(0, partition(1).responses[0].partitions[0])
    answer.node_endpoints = [
        FetchResponse.NodeEndpoint(node_id=1, host="c1", port=1, rack=None),
        FetchResponse.NodeEndpoint(node_id=0, host="c0", port=2, rack=None),
    ]
    assert parse_fetch(received(answer, 17)) == FetchResult(
        error=error,
        leader_id=NodeId(0),
        leader_epoch=Epoch(21),
        leader=Address("c0", 2),
        high_watermark=Offset(51),
        start_offset=None if error else Offset(41),
        diverging=SnapshotId(end_offset=31, epoch=11),
        snapshot=SnapshotId(end_offset=71, epoch=12),
        records=b"abc",
    )
