"""Requests that the lab sends to its nodes directly, one short connection each, without starting a JVM."""

import base64
import socket
import struct
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from deploy.lab import LabError

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function that is deprecated in Python 3.11 and 3.12.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.admin.cluster import DescribeQuorumRequest, DescribeQuorumResponse
    from kafka.protocol.admin.topics import ElectLeadersRequest, ElectLeadersResponse
    from kafka.protocol.metadata import MetadataRequest, MetadataResponse

REQUEST_TIMEOUT_S = 2.0
_CLIENT_ID = "kraftwatch-lab"
_DESCRIBE_QUORUM_V1, _DESCRIBE_QUORUM_V2, _METADATA_V9, _ELECT_LEADERS_V2 = 1, 2, 9, 2
_NONE = 0
_UNCLEAN = 1

Connect: TypeAlias = Callable[[int], socket.socket]
"""Opens a connection to a port of 127.0.0.1, logged in and ready for requests; raises OSError."""


def plaintext(port: int) -> socket.socket:
    """Connects to a listener without TLS and login."""
    return socket.create_connection(("127.0.0.1", port), REQUEST_TIMEOUT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedReplica:
    """One row of DescribeQuorum: the leader's view of one replica."""

    id: int
    directory_id: str
    """Empty in a static quorum, and before Kafka 3.9."""
    log_end_offset: int
    caught_up: bool
    """Whether it has reached this leader's log end once; before that the leader refuses to add it as a voter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """The leader's response to DescribeQuorum for `__cluster_metadata-0`."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[DescribedReplica, ...]
    observers: tuple[DescribedReplica, ...]
    endpoints: Mapping[int, tuple[str, ...]]
    """HOST:PORT of each voter's listeners in the VotersRecord; empty before Kafka 3.9."""

    @property
    def voter_ids(self) -> frozenset[int]:
        """The node ids of the leader's latest voter set."""
        return frozenset(voter.id for voter in self.voters)


def quorum_state(port: int, *, dynamic: bool = True, connect: Connect = plaintext) -> QuorumState | None:
    """Returns the quorum as reported by the node on 127.0.0.1:`port`; None if it is not the leader or does not answer.

    `dynamic`: its Kafka supports dynamic quorums, and therefore DescribeQuorum v2.
    """
    topic = DescribeQuorumRequest.TopicData
    version = _DESCRIBE_QUORUM_V2 if dynamic else _DESCRIBE_QUORUM_V1
    request = DescribeQuorumRequest[version](
        topics=[topic(topic_name="__cluster_metadata", partitions=[topic.PartitionData(partition_index=0)])]
    )
    answer = _send(connect, port, request, DescribeQuorumResponse, version)
    if answer is None or answer.error_code != _NONE or not answer.topics:
        return None
    partition = answer.topics[0].partitions[0]
    if partition.error_code != _NONE or partition.leader_id < 0:
        return None
    return QuorumState(
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        voters=tuple(map(_replica, partition.current_voters)),
        observers=tuple(map(_replica, partition.observers)),
        endpoints={
            node.node_id: tuple(f"{listener.host}:{listener.port}" for listener in node.listeners)
            for node in answer.nodes or ()
        },
    )


def unfenced_brokers(port: int, *, connect: Connect = plaintext) -> frozenset[int]:
    """Returns the unfenced brokers known to the broker on 127.0.0.1:`port`; empty if it does not answer."""
    answer = _send(connect, port, MetadataRequest[_METADATA_V9](topics=[]), MetadataResponse, _METADATA_V9)
    return frozenset() if answer is None else frozenset(broker.node_id for broker in answer.brokers)


def partitions(port: int, topic: str, *, connect: Connect = plaintext) -> Sequence[Any]:
    """Returns that broker's partitions of a topic, rows of a MetadataResponse; none if it does not know the topic."""
    request = MetadataRequest[_METADATA_V9](
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    answer = _send(connect, port, request, MetadataResponse, _METADATA_V9)
    return [partition for row in (() if answer is None else answer.topics) for partition in row.partitions]


def elect_unclean(port: int, partitions: Collection[tuple[str, int]], *, connect: Connect = plaintext) -> None:
    """Requests an unclean election of these (topic, partition); `partitions` then shows the elected leader.

    The broker on 127.0.0.1:`port` forwards the request to the controller. confluent-kafka 2.16.1 is not used, because
    its elect_leaders raises SystemError when it gets a timeout.
    """
    topic = ElectLeadersRequest.TopicPartitions
    numbers: dict[str, list[int]] = {}
    for name, number in sorted(partitions):
        numbers.setdefault(name, []).append(number)
    request = ElectLeadersRequest[_ELECT_LEADERS_V2](
        election_type=_UNCLEAN,
        topic_partitions=[topic(topic=name, partitions=indexes) for name, indexes in numbers.items()],
        timeout_ms=int(REQUEST_TIMEOUT_S * 500),
    )
    _send(connect, port, request, ElectLeadersResponse, _ELECT_LEADERS_V2)


def accepts_connections(port: int) -> bool:
    """Returns whether a process accepts connections on 127.0.0.1:`port`."""
    try:
        socket.create_connection(("127.0.0.1", port), REQUEST_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def _replica(row: Any) -> DescribedReplica:
    return DescribedReplica(
        id=row.replica_id,
        directory_id=_uuid(row.replica_directory_id),
        log_end_offset=row.log_end_offset,
        caught_up=row.last_caught_up_timestamp > 0,
    )


def _uuid(value: Any) -> str:
    if value is None or value.int == 0:
        return ""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def _send(connect: Connect, port: int, request: Any, response: Any, version: int) -> Any:
    try:
        with connect(port) as connection:
            return exchange(connection, request, response, version)
    except OSError:
        return None


def exchange(connection: socket.socket, request: Any, response: Any, version: int) -> Any:
    """Sends one request and returns its decoded response.

    Raises:
        OSError: there was no response in time.
        LabError: the response cannot be decoded.
    """
    request.with_header(correlation_id=1, client_id=_CLIENT_ID)
    connection.sendall(request.encode(header=True, framed=True))
    (size,) = struct.unpack(">i", _receive(connection, 4))
    answer = _receive(connection, size)
    try:
        return response.decode(answer, version=version, header=True)
    except (ValueError, IndexError, struct.error) as error:
        raise LabError(f"a node's response to {request.name} cannot be decoded") from error


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionError("the connection closed before the complete response")
        received += chunk
    return bytes(received)
