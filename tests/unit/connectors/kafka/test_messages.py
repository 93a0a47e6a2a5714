"""Encoded requests have replica id -1 in every version; parsed responses have None for absent values."""

import base64
from typing import Any
from uuid import UUID

import pytest

from connectors.errors import ObservationError
from connectors.kafka.client import Address
from connectors.kafka.kafka_python import (
    DescribeQuorumResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from connectors.kafka.messages import (
    describe_quorum_request,
    fetch_request,
    fetch_snapshot_request,
    parse_describe_quorum,
    parse_fetch,
    parse_fetch_snapshot,
)
from rules.model.identifiers import Endpoint, SnapshotId
from rules.model.monitoring import Reason

ADDRESS = Address("c1", 9093)


def encoded_fetch(version: int, **more: Any) -> Any:
    settings: dict[str, Any] = {
        "cluster_id": "the-cluster",
        "leader_epoch": 4,
        "offset": 10,
        "last_epoch": 3,
        "high_watermark": 9,
        "max_wait_ms": 500,
        "max_bytes": 1000,
    }
    request = fetch_request(**{**settings, **more})
    return FetchRequest.decode(request.encode(version=version), version=version)


@pytest.mark.kip("D004", "D005", "D031", "D032", "D067", "D068", "K004")
@pytest.mark.parametrize("version", range(12, 19))
def test_fetch_has_replica_id_minus_one_in_every_version(version: int) -> None:
    request = encoded_fetch(version)
    partition = request.topics[0].partitions[0]

    assert request.replica_id == -1
    assert request.replica_state is None or request.replica_state.replica_id == -1
    assert (partition.partition, partition.replica_directory_id) == (0, None)
    assert request.cluster_id == "the-cluster"
    assert (partition.current_leader_epoch, partition.fetch_offset, partition.last_fetched_epoch) == (4, 10, 3)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 1000)
    assert partition.partition_max_bytes == 1000
    if version >= 13:
        assert request.topics[0].topic_id == UUID(int=1)
    else:
        assert request.topics[0].topic == "__cluster_metadata"
    if version >= 18:
        assert partition.high_watermark == 9


def test_unknown_high_watermark_is_sent_as_minus_one() -> None:
    assert encoded_fetch(18, high_watermark=None).topics[0].partitions[0].high_watermark == -1


@pytest.mark.kip("A083", "K004")
@pytest.mark.parametrize("version", [0, 1])
def test_fetch_snapshot_has_replica_id_minus_one_in_every_version(version: int) -> None:
    request = fetch_snapshot_request(
        cluster_id="the-cluster",
        leader_epoch=4,
        snapshot=SnapshotId(end_offset=50, epoch=3),
        position=7,
        max_bytes=1000,
    )
    read = FetchSnapshotRequest.decode(request.encode(version=version), version=version)
    partition = read.topics[0].partitions[0]

    assert (read.replica_id, read.cluster_id, partition.replica_directory_id) == (-1, "the-cluster", None)
    assert (partition.snapshot_id.end_offset, partition.snapshot_id.epoch, partition.position) == (50, 3, 7)


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


@pytest.mark.kip("D033", "D066")
def test_response_of_a_follower_reports_leader_and_address() -> None:
    answer = parse_fetch(fetch_response(error=74))
    assert (answer.error, answer.leader_id, answer.leader_epoch) == (74, 2, 7)
    assert answer.leader == Address("c2", 9093)
    assert (answer.high_watermark, answer.diverging, answer.snapshot) == (None, None, None)


@pytest.mark.parametrize(("version", "endpoints"), [(13, True), (17, False)])
def test_reported_leader_may_have_no_address(version: int, endpoints: bool) -> None:
    answer = parse_fetch(fetch_response(error=6, version=version, endpoints=endpoints))
    assert (answer.leader_id, answer.leader) == (2, None)


@pytest.mark.kip("D034")
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


def test_snapshot_piece_is_parsed() -> None:
    partition_type = FetchSnapshotResponse.TopicSnapshot.PartitionSnapshot
    partition = partition_type(
        index=0,
        error_code=0,
        snapshot_id=partition_type.SnapshotId(end_offset=50, epoch=3),
        size=100,
        position=7,
        unaligned_records=b"abc",
    )
    topic = FetchSnapshotResponse.TopicSnapshot(name="x", partitions=[partition])
    answer = FetchSnapshotResponse(throttle_time_ms=0, error_code=0, topics=[topic])
    read = parse_fetch_snapshot(FetchSnapshotResponse.decode(answer.encode(version=1), version=1))
    assert (read.error, read.size, read.position, read.records) == (0, 100, 7, b"abc")


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


@pytest.mark.kip("A017", "A093", "A094", "A108", "C022", "C023", "C024")
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


@pytest.mark.kip("A094", "A097", "C022", "K005")
@pytest.mark.parametrize("version", [0, 1])
def test_older_poll_has_no_directory_ids_and_no_nodes(version: int) -> None:
    polled = parse_describe_quorum(quorum_response(version=version), cluster_id=None, address=ADDRESS)
    assert polled.voters[0].key.directory_id is None
    assert polled.nodes == ()
    assert (polled.voters[0].last_fetch_ms is None) == (version == 0)


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


@pytest.mark.kip("A115", "D004", "D005", "D084")
def test_poll_requests_the_metadata_partition() -> None:
    topic = describe_quorum_request().topics[0]
    assert (topic.topic_name, [one.partition_index for one in topic.partitions]) == ("__cluster_metadata", [0])
