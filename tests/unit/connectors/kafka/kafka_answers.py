"""Kafka's responses as kafka-python's objects; a field that a test does not name has a plausible value."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from kafka.protocol.admin import DescribeQuorumResponse
from kafka.protocol.consumer import FetchResponse

from connectors.kafka.cluster_connection import Address
from connectors.kafka.schemas import FetchSnapshotResponse

PARTITION = FetchResponse.FetchableTopicResponse.PartitionData
_QUORUM = DescribeQuorumResponse.TopicData.PartitionData
_NODE = DescribeQuorumResponse.Node
_PIECE = FetchSnapshotResponse.TopicSnapshot.PartitionSnapshot


def fetch_answer(
    *, top: int = 0, error: int = 0, leader: int = -1, epoch: int = 3, at: Address | None = None, **partition: Any
) -> Any:
    """Returns a Fetch response that reports this leader and its address; `top` is its error without a partition."""
    fields = {"partition_index": 0, "high_watermark": -1, "aborted_transactions": None, "records": b"", **partition}
    reported = PARTITION.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    content = PARTITION(error_code=error, current_leader=reported, **fields)
    topic = FetchResponse.FetchableTopicResponse(topic="", topic_id=UUID(int=1), partitions=[content])
    nodes = [] if at is None else [FetchResponse.NodeEndpoint(node_id=leader, host=at.host, port=at.port, rack=None)]
    return FetchResponse(throttle_time_ms=0, error_code=top, responses=[] if top else [topic], node_endpoints=nodes)


def piece_answer(records: bytes, **partition: Any) -> Any:
    """Returns a FetchSnapshot response with a piece of a snapshot, by default the whole one."""
    content = _PIECE(
        index=0,
        snapshot_id=_PIECE.SnapshotId(end_offset=9, epoch=2),
        current_leader=_PIECE.LeaderIdAndEpoch(leader_id=1, leader_epoch=3),
        unaligned_records=records,
        **{"error_code": 0, "size": len(records), "position": 0, **partition},
    )
    topic = FetchSnapshotResponse.TopicSnapshot(name="__cluster_metadata", partitions=[content])
    return FetchSnapshotResponse(throttle_time_ms=0, error_code=0, topics=[topic])


def refused_piece() -> Any:
    """Returns what a node answers to FetchSnapshot that it refuses, for whatever reason: Kafka cannot serialize it."""
    return FetchSnapshotResponse(throttle_time_ms=0, error_code=-1, topics=[])


def quorum_answer(
    *,
    top: int = 0,
    error: int = 0,
    leader: int = 1,
    epoch: int = 3,
    high_watermark: int = 5,
    voters: Sequence[Any] = (),
    observers: Sequence[Any] = (),
    nodes: Sequence[Any] = (),
) -> Any:
    """Returns a DescribeQuorum response; `top` is its error without a partition."""
    content = _QUORUM(
        partition_index=0,
        error_code=error,
        error_message=None,
        leader_id=leader,
        leader_epoch=epoch,
        high_watermark=high_watermark,
        current_voters=[*voters],
        observers=[*observers],
    )
    topic = DescribeQuorumResponse.TopicData(topic_name="__cluster_metadata", partitions=[content])
    return DescribeQuorumResponse(error_code=top, error_message=None, topics=[] if top else [topic], nodes=[*nodes])


def replica_row(
    node: int, directory: bytes = bytes(15) + b"\7", end: int = 5, fetched: int = 1, caught_up: int = 1
) -> Any:
    """Returns a voter or observer of a DescribeQuorum response."""
    return _QUORUM.ReplicaState(
        replica_id=node,
        replica_directory_id=UUID(bytes=directory),
        log_end_offset=end,
        last_fetch_timestamp=fetched,
        last_caught_up_timestamp=caught_up,
    )


def node_row(node: int, *listeners: tuple[str, str, int]) -> Any:
    """Returns a node of a DescribeQuorum response with these listeners: name, host and port."""
    return _NODE(
        node_id=node, listeners=[_NODE.Listener(name=name, host=host, port=port) for name, host, port in listeners]
    )


def received(response: Any, version: int) -> Any:
    """Returns the response as it is decoded in this version."""
    return type(response).decode(response.encode(version=version), version=version)
