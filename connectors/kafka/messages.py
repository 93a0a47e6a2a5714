"""Builds the requests and parses the responses: -1, the zero UUID and empty strings become None.

Every Fetch and FetchSnapshot has replica id -1 and no directory id, so the leader does not list kraftwatch as an
observer. It lists any other replica id as an observer at once.
"""

import base64
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kafka.protocol.admin import DescribeConfigsRequest, DescribeQuorumRequest
from kafka.protocol.consumer import FetchRequest

from connectors.errors import ObservationError
from connectors.kafka.cluster_connection import Address
from connectors.kafka.error_classification import error_from_code
from connectors.kafka.error_code import NOT_LEADER, ErrorCode
from connectors.kafka.response_limits import Port, invalid, known, known_host, optional
from connectors.kafka.schemas import FetchSnapshotRequest
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey, SnapshotId
from rules.model.membership import MOST_VOTERS
from rules.model.monitoring import COMPARED_SETTINGS, HIDDEN, PROCESS_ROLES, QUORUM_VOTERS, Reason
from rules.model.replica import Poll, Replica

TOPIC = "__cluster_metadata"
TOPIC_ID = UUID(int=1)
_ANONYMOUS = -1
_BROKER_RESOURCE = 4
_SETTINGS = (QUORUM_VOTERS, PROCESS_ROLES, *COMPARED_SETTINGS)
_MOST_VALUE_TEXT = 10_000
"""More characters than any list of voters has: a longer value is ignored."""
_EXPECTED_NODE = re.compile(r"expected ([0-9]{1,10})(?![0-9])")
_MAX_NODE_ID = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """A controller's response to a Fetch of the metadata log."""

    error: int
    """The partition's error code: NONE, one of NOT_LEADER, or UNKNOWN_SERVER_ERROR. NONE: the node is the leader;
    UNKNOWN_SERVER_ERROR: it is, and cannot read its log there (`KafkaRaftClient.tryCompleteFetchRequest`)."""
    leader_id: NodeId | None
    leader_epoch: Epoch | None
    leader: Address | None
    """The leader's address, if the response contains it (Fetch v16)."""
    high_watermark: Offset | None = None
    start_offset: Offset | None = None
    """The log start offset; only in a response without an error."""
    diverging: SnapshotId | None = None
    """DivergingEpoch: the leader's largest epoch that is not above the fetched one, and its end offset."""
    snapshot: SnapshotId | None = None
    records: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotResult:
    """A piece of a `.checkpoint`; it may end inside a batch."""

    error: int
    size: int = 0
    position: int = 0
    records: bytes = b""


def fetch_request(
    *,
    cluster_id: str | None,
    leader_epoch: int = 0,
    offset: int = 0,
    last_epoch: int = 0,
    high_watermark: int | None = None,
    max_wait_ms: int = 0,
    max_bytes: int = 1,
) -> Any:
    """Returns a Fetch of `__cluster_metadata-0` with replica id -1 (KIP-595; high watermark: KIP-1166).

    By default it is answered at once: the response shows the node's cluster, leader, epoch and snapshot. Offset 0 is
    valid for every leader epoch.
    """
    partition = FetchRequest.FetchTopic.FetchPartition(
        partition=0,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=max_bytes,
        high_watermark=-1 if high_watermark is None else high_watermark,
    )
    topic = FetchRequest.FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])
    return FetchRequest(
        cluster_id=cluster_id,
        replica_id=_ANONYMOUS,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[topic],
        min_version=12,
    )


def parse_fetch(response: Any, asked: Address | None = None) -> FetchResult:
    """Parses a Fetch response.

    `asked`: the address of the node, which knows no leader if it names itself and does not lead: it has resigned, and
    does so for about a second (Kafka's `ResignedState`).

    Raises:
        ObservationError: a top-level error, a partition error that does not report the leader, or a number that
            Kafka cannot write.
    """
    if response.error_code:
        raise error_from_code(response.error_code, "Fetch")
    partition = next(
        (
            each
            for topic in response.responses or ()
            if topic.topic_id == TOPIC_ID or topic.topic == TOPIC
            for each in topic.partitions or ()
            if each.partition_index == 0
        ),
        None,
    )
    if partition is None:
        raise ObservationError(Reason.UNSUPPORTED, "Fetch: the response does not contain the partition")
    current = partition.current_leader
    leader_id = None if current is None else optional(NodeId, current.leader_id, "Fetch: leader_id")
    cannot_read = partition.error_code == ErrorCode.UNKNOWN_SERVER_ERROR and leader_id is not None
    if partition.error_code not in (ErrorCode.NONE, *NOT_LEADER) and not cannot_read:
        raise error_from_code(partition.error_code, "Fetch")
    leader = _address_of(leader_id, response.node_endpoints)
    if partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and leader is not None and leader == asked:
        leader_id = leader = None
    return FetchResult(
        error=partition.error_code,
        leader_id=leader_id,
        leader_epoch=None if current is None else optional(Epoch, current.leader_epoch, "Fetch: leader_epoch"),
        leader=leader,
        high_watermark=optional(Offset, partition.high_watermark, "Fetch: high_watermark"),
        start_offset=None
        if partition.error_code
        else optional(Offset, partition.log_start_offset, "Fetch: log_start_offset"),
        diverging=_snapshot_id(partition.diverging_epoch, "Fetch: diverging_epoch"),
        snapshot=_snapshot_id(partition.snapshot_id, "Fetch: snapshot_id"),
        records=bytes(partition.records or b""),
    )


def fetch_snapshot_request(
    *, cluster_id: str | None, leader_epoch: int, snapshot: SnapshotId, position: int, max_bytes: int
) -> Any:
    """Returns a FetchSnapshot (KIP-630) with replica id -1."""
    partition_type = FetchSnapshotRequest.TopicSnapshot.PartitionSnapshot
    partition = partition_type(
        partition=0,
        current_leader_epoch=leader_epoch,
        snapshot_id=partition_type.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
        position=position,
    )
    topic = FetchSnapshotRequest.TopicSnapshot(name=TOPIC, partitions=[partition])
    return FetchSnapshotRequest(cluster_id=cluster_id, replica_id=_ANONYMOUS, max_bytes=max_bytes, topics=[topic])


def parse_fetch_snapshot(response: Any) -> FetchSnapshotResult:
    """Parses a FetchSnapshot response.

    UNKNOWN_SERVER_ERROR at top level is any error of the partition: Kafka 3.9.2 to 4.4.0 cannot serialize its own.

    Raises:
        ObservationError: another top-level error, a response without the partition, or a number that Kafka cannot
            write.
    """
    if response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
        return FetchSnapshotResult(error=response.error_code)
    if response.error_code:
        raise error_from_code(response.error_code, "FetchSnapshot")
    if not response.topics or not response.topics[0].partitions:
        raise invalid("FetchSnapshot: the response does not contain the partition")
    partition = response.topics[0].partitions[0]
    if partition.error_code:
        return FetchSnapshotResult(error=partition.error_code)
    return FetchSnapshotResult(
        error=ErrorCode.NONE,
        size=known(Offset, partition.size, "FetchSnapshot: size"),
        position=known(Offset, partition.position, "FetchSnapshot: position"),
        records=bytes(partition.unaligned_records or b""),
    )


def describe_quorum_request() -> Any:
    """Returns a DescribeQuorum (KIP-595, KIP-836, KIP-853)."""
    partition = DescribeQuorumRequest.TopicData.PartitionData(partition_index=0)
    return DescribeQuorumRequest(topics=[DescribeQuorumRequest.TopicData(topic_name=TOPIC, partitions=[partition])])


def parse_describe_quorum(response: Any, *, cluster_id: str | None, address: Address) -> Poll:
    """Parses a DescribeQuorum response.

    Raises:
        ObservationError: the node is not the leader (NO_LEADER), the response holds another error, or a number or
            voter that Kafka cannot write.
    """
    if response.error_code:
        raise error_from_code(response.error_code, "DescribeQuorum")
    if not response.topics or not response.topics[0].partitions:
        raise ObservationError(Reason.UNSUPPORTED, "DescribeQuorum: the response does not contain the partition")
    partition = response.topics[0].partitions[0]
    if partition.error_code:
        raise error_from_code(partition.error_code, "DescribeQuorum")
    leader = optional(NodeId, partition.leader_id, "DescribeQuorum: leader_id")
    if leader is None:
        raise ObservationError(Reason.NO_LEADER, "DescribeQuorum: the node knows no leader")
    voters = tuple(map(_replica, partition.current_voters or ()))
    nodes = [*map(_node, response.nodes or ())]
    if max(len(voters), len(nodes)) > MOST_VOTERS:
        raise invalid(
            f"DescribeQuorum: {len(voters)} voters and {len(nodes)} nodes, at most {MOST_VOTERS} are accepted"
        )
    ids = Counter(voter.key.id for voter in voters)
    if len(ids) < len(voters):
        raise invalid(f"DescribeQuorum: current_voters lists node {ids.most_common(1)[0][0]} twice")
    return Poll(
        cluster_id=cluster_id,
        endpoint=str(address),
        leader_id=leader,
        leader_epoch=known(Epoch, partition.leader_epoch, "DescribeQuorum: leader_epoch"),
        high_watermark=optional(Offset, partition.high_watermark, "DescribeQuorum: high_watermark"),
        voters=voters,
        observers=tuple(map(_replica, partition.observers or ())),
        nodes=dict(nodes),
    )


def _snapshot_id(value: Any, field: str) -> SnapshotId | None:
    if value is None:
        return None
    end_offset = optional(Offset, value.end_offset, f"{field}.end_offset")
    end_epoch = optional(Epoch, value.epoch, f"{field}.epoch")
    if end_offset is None or end_epoch is None:
        return None
    return SnapshotId(end_offset=end_offset, epoch=end_epoch)


def _address_of(node: int | None, endpoints: Any) -> Address | None:
    listed = (
        Address(known_host(endpoint.host, "Fetch: host"), known(Port, endpoint.port, "Fetch: port"))
        for endpoint in endpoints or ()
        if endpoint.node_id == node
    )
    return next((address for address in listed if address.host and address.port), None)


def _replica(row: Any) -> Replica:
    return Replica(
        key=ReplicaKey(
            id=known(NodeId, row.replica_id, "DescribeQuorum: replica_id"),
            directory_id=_directory(row.replica_directory_id),
        ),
        log_end_offset=optional(Offset, row.log_end_offset, "DescribeQuorum: log_end_offset"),
        last_fetch_ms=optional(Millis, row.last_fetch_timestamp, "DescribeQuorum: last_fetch_timestamp"),
        last_caught_up_ms=optional(Millis, row.last_caught_up_timestamp, "DescribeQuorum: last_caught_up_timestamp"),
    )


def _node(row: Any) -> tuple[NodeId, tuple[Endpoint, ...]]:
    endpoints = (
        Endpoint(
            listener=listener.name or "", host=known_host(listener.host, "DescribeQuorum: host"), port=listener.port
        )
        for listener in row.listeners or ()
    )
    return known(NodeId, row.node_id, "DescribeQuorum: node_id"), tuple(endpoints)


def _directory(value: UUID | None) -> DirectoryId | None:
    # kafka-python reads the zero UUID as None.
    if value is None:
        return None
    return DirectoryId(base64.urlsafe_b64encode(value.bytes).decode("ascii").rstrip("="))


def describe_node_request(node: int, *, listener: str | None = None) -> Any:
    """Returns a DescribeConfigs of one node: only that node answers it. It needs DESCRIBE_CONFIGS on CLUSTER.

    `listener`: the name of the listener whose settings are asked for; None: no settings but the node's id.
    """
    settings = () if listener is None else (*_SETTINGS, *(_of_listener(listener, name) for name in COMPARED_SETTINGS))
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE,
        resource_name=str(node),
        configuration_keys=["node.id", *settings],
    )
    return DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=False)


def parse_node_id(response: Any, *, requested: int) -> NodeId | None:
    """Returns the id of the node that answered DescribeConfigs; None if the response does not show it."""
    if not response.results:
        return None
    result = response.results[0]
    if result.error_code == ErrorCode.NONE:
        return NodeId(requested)
    match = _EXPECTED_NODE.search(result.error_message or "")
    node = int(match.group(1)) if match else _MAX_NODE_ID + 1
    return NodeId(node) if node <= _MAX_NODE_ID else None


def parse_settings(response: Any, listener: str) -> Mapping[str, str] | None:
    """Returns what a node answered DescribeConfigs of its settings, by name; None if the response does not show them.

    Of a setting that the listener has of its own, that one's value. A setting without a value is absent.
    """
    result = response.results[0] if response.results else None
    if result is None or result.error_code != ErrorCode.NONE:
        return None
    values = {one.name: _value(one) for one in getattr(result, "configs", None) or ()}
    found = {name: values.get(_of_listener(listener, name)) or values.get(name) for name in _SETTINGS}
    return {name: value for name, value in found.items() if value is not None}


def _of_listener(listener: str, name: str) -> str:
    return f"listener.name.{listener.lower()}.{name}"


def _value(one: Any) -> str | None:
    """Returns the value of a setting; None if it has none, or one that no Kafka node has."""
    if one.value is None:
        # Kafka hides what may be a secret, and each setting whose type it does not know (KafkaConfig.maybeSensitive).
        return HIDDEN if one.is_sensitive else None
    return one.value if len(one.value) <= _MOST_VALUE_TEXT and one.value.isprintable() else None
