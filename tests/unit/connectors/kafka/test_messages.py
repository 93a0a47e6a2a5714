"""Encoded requests have replica id -1 in every version; parsed responses have None for absent values."""

import base64
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.admin import DescribeQuorumRequest, DescribeQuorumResponse
from kafka.protocol.consumer import FetchRequest, FetchResponse

from connectors.errors import ObservationError
from connectors.kafka.cluster_connection import Address
from connectors.kafka.messages import (
    TOPIC_ID,
    FetchResult,
    describe_quorum_request,
    fetch_request,
    fetch_snapshot_request,
    parse_describe_quorum,
    parse_fetch,
)
from connectors.kafka.schemas import FetchSnapshotRequest
from connectors.observations.observation import NodeEndpoints, QuorumPolled
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey, SnapshotId
from rules.model.monitoring import Reason
from rules.model.quorum import Replica

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


@pytest.mark.kip("A079", "D004", "D005", "D029", "D031", "D032", "D067", "D068", "D095", "K004", "K019")
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


@pytest.mark.kip("A083", "D004", "D031", "D032", "K004")
@pytest.mark.parametrize("version", [0, 1])
def test_whole_fetch_of_a_snapshot_in_every_version(version: int) -> None:
    request = fetch_snapshot_request(
        cluster_id="the-cluster",
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
        "cluster_id": "the-cluster",
        "replica_id": -1,
        "max_bytes": 1000,
        "topics": [{"name": "__cluster_metadata", "partitions": [partition]}],
    }


def fetch_response(*, top: int = 0, error: int = 0, version: int = 17, endpoints: bool = True) -> Any:
    partition_type = FetchResponse.FetchableTopicResponse.PartitionData
    partition = partition_type(
        partition_index=0,
        error_code=error,
        high_watermark=-1,
        current_leader=partition_type.LeaderIdAndEpoch(leader_id=2, leader_epoch=7),
        aborted_transactions=None,
        records=b"",
    )
    topic = FetchResponse.FetchableTopicResponse(topic="", topic_id=UUID(int=1), partitions=[partition])
    nodes = [FetchResponse.NodeEndpoint(node_id=2, host="c2", port=9093, rack=None)]
    answer = FetchResponse(
        throttle_time_ms=0,
        error_code=top,
        responses=[] if top else [topic],
        **({"node_endpoints": nodes} if endpoints and version >= 16 else {}),
    )
    return FetchResponse.decode(answer.encode(version=version), version=version)


@pytest.mark.parametrize(("version", "endpoints"), [(13, True), (17, False)])
def test_reported_leader_may_have_no_address(version: int, endpoints: bool) -> None:
    answer = parse_fetch(fetch_response(error=6, version=version, endpoints=endpoints))
    assert (answer.leader_id, answer.leader, answer.high_watermark) == (2, None, None)


@pytest.mark.kip("D034", "D095")
@pytest.mark.parametrize(
    ("top", "error", "reason"),
    [
        (31, 0, Reason.DENIED),
        (-1, 0, Reason.NOT_READY),
        (104, 0, Reason.WRONG_CLUSTER),
        (0, 100, Reason.UNSUPPORTED),
        (0, 42, Reason.UNSUPPORTED),
    ],
)
def test_errors_unrelated_to_the_leader_are_classified(top: int, error: int, reason: Reason) -> None:
    with pytest.raises(ObservationError) as problem:
        parse_fetch(fetch_response(top=top, error=error))
    assert problem.value.reason is reason


def quorum_response(*, version: int = 2, top: int = 0, error: int = 0, leader: int = 1) -> Any:
    state = DescribeQuorumResponse.TopicData.PartitionData.ReplicaState
    replicas = [
        state(
            replica_id=1,
            replica_directory_id=UUID(bytes=b"\xfb\xff" * 8),
            log_end_offset=20,
            last_fetch_timestamp=100,
            last_caught_up_timestamp=90,
        ),
        state(
            replica_id=2,
            replica_directory_id=UUID(int=0),
            log_end_offset=-1,
            last_fetch_timestamp=-1,
            last_caught_up_timestamp=-1,
        ),
    ]
    partition = DescribeQuorumResponse.TopicData.PartitionData(
        partition_index=0,
        error_code=error,
        error_message=None,
        leader_id=leader,
        leader_epoch=7,
        high_watermark=-1,
        current_voters=replicas,
        observers=[],
    )
    listener = DescribeQuorumResponse.Node.Listener(name="CONTROLLER", host="c1", port=9093)
    answer = DescribeQuorumResponse(
        error_code=top,
        error_message=None,
        topics=[] if top else [DescribeQuorumResponse.TopicData(topic_name="x", partitions=[partition])],
        nodes=[DescribeQuorumResponse.Node(node_id=1, listeners=[listener])],
    )
    return DescribeQuorumResponse.decode(answer.encode(version=version), version=version)


@pytest.mark.kip("A017", "A093", "A094", "A108", "A111", "C022", "C023", "C024")
def test_minus_one_and_zero_uuid_of_a_poll_are_none() -> None:
    polled = parse_describe_quorum(quorum_response(), cluster_id="the-cluster", address=ADDRESS)
    known, absent = polled.voters

    expected = base64.urlsafe_b64encode(UUID(bytes=b"\xfb\xff" * 8).bytes).decode().rstrip("=")
    assert (known.key.directory_id, known.log_end_offset, known.last_fetch_ms) == (expected, 20, 100)
    assert (absent.key.directory_id, absent.log_end_offset, absent.last_fetch_ms) == (None, None, None)
    assert (known.last_caught_up_ms, absent.last_caught_up_ms) == (90, None)
    assert polled.high_watermark is None
    assert polled.observers == ()
    assert polled.endpoint == "c1:9093"
    assert polled.nodes[0].endpoints == (Endpoint(listener="CONTROLLER", host="c1", port=9093),)


@pytest.mark.kip("D021", "D038", "D086")
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
def test_poll_without_a_leader_is_classified(answer: dict[str, int], reason: Reason) -> None:
    with pytest.raises(ObservationError) as problem:
        parse_describe_quorum(quorum_response(**answer), cluster_id=None, address=ADDRESS)
    assert problem.value.reason is reason
    assert parse_describe_quorum(quorum_response(leader=0), cluster_id=None, address=ADDRESS).leader_id == 0


@pytest.mark.kip("A115", "D004", "D005", "D030", "D084", "K019")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_poll_requests_the_metadata_partition_in_every_version(version: int) -> None:
    request = describe_quorum_request()
    assert request.API_KEY == 55
    assert DescribeQuorumRequest.decode(request.encode(version=version), version=version).to_dict() == {
        "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    }


def replica(node: int, directory: int, *numbers: int | None) -> Replica:
    """A replica whose directory id consists of this byte."""
    end, fetched, caught_up = numbers
    printed = base64.urlsafe_b64encode(bytes([directory]) * 16).decode().rstrip("=")
    return Replica(
        key=ReplicaKey(id=NodeId(node), directory_id=DirectoryId(printed)),
        log_end_offset=None if end is None else Offset(end),
        last_fetch_ms=None if fetched is None else Millis(fetched),
        last_caught_up_ms=None if caught_up is None else Millis(caught_up),
    )


@pytest.mark.kip("A008", "A012", "A017", "A028", "A093", "A094", "A095", "A097", "C022", "C023", "C024", "D014", "D085")
@pytest.mark.kip("A018", "A047", "A049", "D074", "D081", "K005", "K024", "K031")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_whole_poll_in_every_version(version: int) -> None:
    """Two replicas have the same node id, and the leader is no voter; no two numbers are equal."""
    state = DescribeQuorumResponse.TopicData.PartitionData.ReplicaState
    listener = DescribeQuorumResponse.Node.Listener

    def row(node: int, directory: int, end: int, fetched: int, caught_up: int) -> Any:
        return state(
            replica_id=node,
            replica_directory_id=UUID(bytes=bytes([directory]) * 16),
            log_end_offset=end,
            last_fetch_timestamp=fetched,
            last_caught_up_timestamp=caught_up,
        )

    partition = DescribeQuorumResponse.TopicData.PartitionData(
        partition_index=0,
        error_code=0,
        error_message=None,
        leader_id=4,
        leader_epoch=17,
        high_watermark=234_130,
        current_voters=[row(3, 0xA3, 234_134, 203, 303), row(0, 0xA0, 0, 0, 0), row(2, 0xA2, -1, -1, -1)],
        observers=[row(4, 0xA4, 234_135, 204, 304), row(2, 0xB2, 22, 222, 322), row(101, 0xC1, 2**40, 2, -1)],
    )
    nodes = [
        DescribeQuorumResponse.Node(
            node_id=3,
            listeners=[listener(name="B", host="c3", port=40_123), listener(name="A", host="fd00::3", port=9093)],
        ),
        DescribeQuorumResponse.Node(node_id=0, listeners=[listener(name="A", host="c0", port=1)]),
        DescribeQuorumResponse.Node(node_id=2, listeners=[]),
    ]
    topic = DescribeQuorumResponse.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    answer = DescribeQuorumResponse(error_code=0, error_message=None, topics=[topic], nodes=nodes)
    encoded = DescribeQuorumResponse.decode(answer.encode(version=version), version=version)

    def seen(one: Replica) -> Replica:
        key = one.key if version == 2 else ReplicaKey(id=one.key.id)
        return replace(one, key=key) if version else replace(one, key=key, last_fetch_ms=None, last_caught_up_ms=None)

    voters = (replica(3, 0xA3, 234_134, 203, 303), replica(0, 0xA0, 0, 0, 0), replica(2, 0xA2, None, None, None))
    observers = (
        replica(4, 0xA4, 234_135, 204, 304),
        replica(2, 0xB2, 22, 222, 322),
        replica(101, 0xC1, 2**40, 2, None),
    )
    listed = (
        NodeEndpoints(
            id=NodeId(3),
            endpoints=(
                Endpoint(listener="B", host="c3", port=40_123),
                Endpoint(listener="A", host="fd00::3", port=9093),
            ),
        ),
        NodeEndpoints(id=NodeId(0), endpoints=(Endpoint(listener="A", host="c0", port=1),)),
        NodeEndpoints(id=NodeId(2), endpoints=()),
    )
    assert parse_describe_quorum(encoded, cluster_id="the-cluster", address=ADDRESS) == QuorumPolled(
        cluster_id="the-cluster",
        endpoint="c1:9093",
        leader_id=NodeId(4),
        leader_epoch=Epoch(17),
        high_watermark=Offset(234_130),
        voters=tuple(map(seen, voters)),
        observers=tuple(map(seen, observers)),
        nodes=listed if version == 2 else (),
    )


@pytest.mark.kip("D029", "D033", "D053", "D057", "D066", "D069", "D070", "D072")
@pytest.mark.parametrize("error", [0, 6, 74, 75])
def test_whole_response_of_a_fetch(error: int) -> None:
    """Node 0 leads; the other partition and the endpoints of other nodes are not of interest."""
    partition_type = FetchResponse.FetchableTopicResponse.PartitionData

    def partition(index: int) -> Any:
        return partition_type(
            partition_index=index,
            error_code=error,
            high_watermark=51 + index,
            last_stable_offset=61,
            log_start_offset=41 + index,
            diverging_epoch=partition_type.EpochEndOffset(epoch=11, end_offset=31 + index),
            current_leader=partition_type.LeaderIdAndEpoch(leader_id=index, leader_epoch=21 + index),
            snapshot_id=partition_type.SnapshotId(end_offset=71 + index, epoch=12),
            aborted_transactions=None,
            records=b"abc" if index == 0 else b"other",
        )

    topic = FetchResponse.FetchableTopicResponse(topic="", topic_id=TOPIC_ID, partitions=[partition(1), partition(0)])
    node = FetchResponse.NodeEndpoint
    answer = FetchResponse(
        throttle_time_ms=0,
        error_code=0,
        responses=[topic],
        node_endpoints=[node(node_id=1, host="c1", port=1, rack=None), node(node_id=0, host="c0", port=2, rack=None)],
    )
    assert parse_fetch(FetchResponse.decode(answer.encode(version=17), version=17)) == FetchResult(
        error=error,
        leader_id=0,
        leader_epoch=21,
        leader=Address("c0", 2),
        high_watermark=51,
        start_offset=None if error else 41,
        diverging=SnapshotId(end_offset=31, epoch=11),
        snapshot=SnapshotId(end_offset=71, epoch=12),
        records=b"abc",
    )
