"""Requests as kafka-python builds them, and their answers as values: -1, the zero UUID and empty become None.

Every Fetch and FetchSnapshot made here carries replica id -1 and no directory id, so that the leader keeps no
row for us: any other id is listed as an observer at once.
"""

import base64
import re
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from connectors.errors import UnseenError
from connectors.event import NodeEndpoints, QuorumPolled
from connectors.kafka.client import Address
from connectors.kafka.error_classification import of_code
from connectors.kafka.kafka_python import (
    DescribeConfigsRequest,
    DescribeQuorumRequest,
    FetchRequest,
    FetchSnapshotRequest,
)
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.monitoring import Reason
from rules.model.poll import Replica

TOPIC = "__cluster_metadata"
TOPIC_ID = UUID(int=1)
_ANONYMOUS = -1
_BROKER_RESOURCE = 4
_EXPECTED = re.compile(r"expected (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotId:
    """Which `.checkpoint`: everything below `end_offset`, whose last record is of `epoch`."""

    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer:
    """What a controller said to a Fetch of the metadata log."""

    error: int
    """0 = it leads and answered."""
    leader_id: int | None
    leader_epoch: int | None
    leader: Address | None
    """The leader's address, where the answer holds it (Fetch v16)."""
    high_watermark: int | None = None
    start_offset: int | None = None
    """Where the log begins, as an answer without an error tells it."""
    diverging: SnapshotId | None = None
    """DivergingEpoch: the leader's newest epoch that is not above ours, and where it ended."""
    snapshot: SnapshotId | None = None
    records: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotAnswer:
    """A piece of a `.checkpoint`, which may end inside a batch."""

    error: int
    size: int = 0
    position: int = 0
    records: bytes = b""


def fetch(
    *,
    cluster_id: str | None,
    leader_epoch: int,
    offset: int,
    last_epoch: int,
    high_watermark: int | None,
    max_wait_ms: int,
    max_bytes: int,
) -> Any:
    """A Fetch of `__cluster_metadata-0` as nobody (KIP-595; high watermark: KIP-1166)."""
    partition = FetchRequest.FetchTopic.FetchPartition(
        partition=0,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=max_bytes,
        high_watermark=-1 if high_watermark is None else high_watermark,
    )
    topic = FetchRequest.FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])
    whose = {} if cluster_id is None else {"cluster_id": cluster_id}
    return FetchRequest(
        replica_id=_ANONYMOUS,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[topic],
        min_version=12,
        **whose,
    )


def knock(cluster_id: str | None, *, leader_epoch: int = 0) -> Any:
    """A Fetch of nothing, asked for what its answer tells besides: whose node it is, whom it follows, its snapshot."""
    return fetch(
        cluster_id=cluster_id,
        leader_epoch=leader_epoch,
        offset=0,
        last_epoch=0,
        high_watermark=None,
        max_wait_ms=0,
        max_bytes=1,
    )


def fetched(answer: Any) -> FetchAnswer:
    """What the answer to a Fetch says.

    Raises:
        UnseenError: an error at top level, or one that has nothing to do with who leads.
    """
    if answer.error_code:
        raise of_code(answer.error_code, "Fetch")
    partition = next(
        (
            each
            for topic in answer.responses or ()
            if topic.topic_id == TOPIC_ID or topic.topic == TOPIC
            for each in topic.partitions
            if each.partition_index == 0
        ),
        None,
    )
    if partition is None:
        raise UnseenError(Reason.UNSUPPORTED, "Fetch: an answer without the partition")
    if partition.error_code not in (0, 6, 74, 75):
        raise of_code(partition.error_code, "Fetch")
    current = partition.current_leader
    leader_id = None if current is None else _known(current.leader_id)
    return FetchAnswer(
        error=partition.error_code,
        leader_id=leader_id,
        leader_epoch=None if current is None else _known(current.leader_epoch),
        leader=_address_of(leader_id, answer.node_endpoints),
        high_watermark=_known(partition.high_watermark),
        start_offset=None if partition.error_code else _known(partition.log_start_offset),
        diverging=_snapshot_id(partition.diverging_epoch),
        snapshot=_snapshot_id(partition.snapshot_id),
        records=bytes(partition.records or b""),
    )


def fetch_snapshot(
    *, cluster_id: str | None, leader_epoch: int, snapshot: SnapshotId, position: int, max_bytes: int
) -> Any:
    """A FetchSnapshot (KIP-630) as nobody."""
    kind = FetchSnapshotRequest.TopicSnapshot.PartitionSnapshot
    partition = kind(
        partition=0,
        current_leader_epoch=leader_epoch,
        snapshot_id=kind.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
        position=position,
    )
    topic = FetchSnapshotRequest.TopicSnapshot(name=TOPIC, partitions=[partition])
    whose = {} if cluster_id is None else {"cluster_id": cluster_id}
    return FetchSnapshotRequest(replica_id=_ANONYMOUS, max_bytes=max_bytes, topics=[topic], **whose)


def snapshot_fetched(answer: Any) -> SnapshotAnswer:
    """What the answer to a FetchSnapshot says.

    Raises:
        UnseenError: an error at top level.
    """
    if answer.error_code:
        raise of_code(answer.error_code, "FetchSnapshot")
    partition = answer.topics[0].partitions[0]
    return SnapshotAnswer(
        error=partition.error_code,
        size=partition.size,
        position=partition.position,
        records=bytes(partition.unaligned_records or b""),
    )


def describe_quorum() -> Any:
    """A DescribeQuorum (KIP-595, KIP-836, KIP-853)."""
    partition = DescribeQuorumRequest.TopicData.PartitionData(partition_index=0)
    return DescribeQuorumRequest(topics=[DescribeQuorumRequest.TopicData(topic_name=TOPIC, partitions=[partition])])


def quorum_described(answer: Any, *, cluster_id: str | None, address: Address) -> QuorumPolled:
    """What the leader says of its quorum.

    Raises:
        UnseenError: it does not lead (NO_LEADER), or does not want to tell.
    """
    if answer.error_code:
        raise of_code(answer.error_code, "DescribeQuorum")
    if not answer.topics or not answer.topics[0].partitions:
        raise UnseenError(Reason.UNSUPPORTED, "DescribeQuorum: an answer without the partition")
    partition = answer.topics[0].partitions[0]
    if partition.error_code:
        raise of_code(partition.error_code, "DescribeQuorum")
    if partition.leader_id < 0:
        raise UnseenError(Reason.NO_LEADER, "DescribeQuorum: it knows no leader")
    return QuorumPolled(
        cluster_id=cluster_id,
        endpoint=str(address),
        leader_id=NodeId(partition.leader_id),
        leader_epoch=Epoch(partition.leader_epoch),
        high_watermark=_offset(partition.high_watermark),
        voters=tuple(map(_replica, partition.current_voters)),
        observers=tuple(map(_replica, partition.observers)),
        nodes=tuple(map(_node, answer.nodes or ())),
    )


def describe_node(node: int) -> Any:
    """A DescribeConfigs of one harmless key of one node: only that node answers it."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(node), configuration_keys=["node.id"]
    )
    return DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=False)


def node_described(answer: Any, *, asked: int) -> NodeId | None:
    """Which node answers; None when it may not tell us."""
    if not answer.results:
        return None
    result = answer.results[0]
    if result.error_code == 0:
        return NodeId(asked)
    said = _EXPECTED.search(result.error_message or "")
    return NodeId(int(said.group(1))) if said else None


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _snapshot_id(value: Any) -> SnapshotId | None:
    if value is None or value.end_offset < 0 or value.epoch < 0:
        return None
    return SnapshotId(end_offset=value.end_offset, epoch=value.epoch)


def _address_of(node: int | None, endpoints: Any) -> Address | None:
    found = (
        Address(one.host, one.port) for one in endpoints or () if one.node_id == node and one.host and one.port > 0
    )
    return next(found, None)


def _replica(row: Any) -> Replica:
    return Replica(
        key=ReplicaKey(id=NodeId(row.replica_id), directory_id=_directory(row.replica_directory_id)),
        log_end_offset=_offset(row.log_end_offset),
        last_fetch_ms=_millis(row.last_fetch_timestamp),
        last_caught_up_ms=_millis(row.last_caught_up_timestamp),
    )


def _node(row: Any) -> NodeEndpoints:
    endpoints = (Endpoint(listener=one.name, host=one.host, port=one.port) for one in row.listeners)
    return NodeEndpoints(id=NodeId(row.node_id), endpoints=tuple(endpoints))


def _directory(value: UUID | None) -> DirectoryId | None:
    if value is None or value.int == 0:
        return None
    return DirectoryId(base64.urlsafe_b64encode(value.bytes).decode("ascii").rstrip("="))


def _offset(number: int) -> Offset | None:
    return None if number < 0 else Offset(number)


def _millis(number: int | None) -> Millis | None:
    return None if number is None or number < 0 else Millis(number)
