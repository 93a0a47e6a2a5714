"""What the lab asks its nodes itself, over one short connection each: no JVM is started for it."""

import base64
import socket
import struct
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from deploy.lab.lab_errors import LabError

with warnings.catch_warnings():
    # kafka-python reads its schemas by a function that Python 3.11 and 3.12 call deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.admin.cluster import DescribeQuorumRequest, DescribeQuorumResponse
    from kafka.protocol.admin.topics import ElectLeadersRequest, ElectLeadersResponse
    from kafka.protocol.metadata import MetadataRequest, MetadataResponse

ANSWER_WITHIN_S = 2.0
_CLIENT_ID = "kraftwatch-lab"
_DESCRIBE_QUORUM_V1, _DESCRIBE_QUORUM_V2, _METADATA_V9, _ELECT_LEADERS_V2 = 1, 2, 9, 2
_NONE = 0
_UNCLEAN = 1


Dial: TypeAlias = Callable[[int], socket.socket]
"""Opens a connection to 127.0.0.1 at a port, on which requests may be sent at once; raises OSError."""


def plaintext(port: int) -> socket.socket:
    """The Dial of a quorum that is not secured."""
    return socket.create_connection(("127.0.0.1", port), ANSWER_WITHIN_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedReplica:
    """A row of DescribeQuorum: the leader's view of one replica."""

    id: int
    directory_id: str
    """Empty where it has none: in a static quorum, and before Kafka 3.9."""
    log_end_offset: int
    caught_up: bool
    """Whether it was ever level with this leader, which adds no voter before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """What the leader answers to DescribeQuorum about `__cluster_metadata-0`."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[DescribedReplica, ...]
    observers: tuple[DescribedReplica, ...]
    endpoints: Mapping[int, tuple[str, ...]]
    """HOST:PORT of each voter's listeners, as its VotersRecord has them; empty before Kafka 3.9."""

    @property
    def voter_ids(self) -> frozenset[int]:
        """The node ids of the leader's latest voter set."""
        return frozenset(voter.id for voter in self.voters)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """A partition as one broker's metadata shows it; `leader` None while it has none."""

    leader: int | None
    isr: frozenset[int]
    replicas: frozenset[int]


def quorum_state(port: int, *, dynamic: bool = True, dial: Dial = plaintext) -> QuorumState | None:
    """The quorum as the node listening on 127.0.0.1:`port` leads it; None if it does not lead or answer.

    `dynamic`: its Kafka knows dynamic quorums, and so DescribeQuorum v2.
    """
    topic = DescribeQuorumRequest.TopicData
    version = _DESCRIBE_QUORUM_V2 if dynamic else _DESCRIBE_QUORUM_V1
    request = DescribeQuorumRequest[version](
        topics=[topic(topic_name="__cluster_metadata", partitions=[topic.PartitionData(partition_index=0)])]
    )
    answer = _ask(dial, port, request, DescribeQuorumResponse, version)
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


def live_brokers(port: int, *, dial: Dial = plaintext) -> frozenset[int]:
    """The unfenced brokers as the broker listening on 127.0.0.1:`port` knows them; empty if it does not answer."""
    answer = _ask(dial, port, MetadataRequest[_METADATA_V9](topics=[]), MetadataResponse, _METADATA_V9)
    return frozenset() if answer is None else frozenset(broker.node_id for broker in answer.brokers)


def partitions(port: int, topic: str, *, dial: Dial = plaintext) -> Mapping[int, PartitionState]:
    """The partitions of a topic, by number, as that broker knows them; empty if it knows or answers nothing."""
    asked = MetadataRequest[_METADATA_V9](
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    answer = _ask(dial, port, asked, MetadataResponse, _METADATA_V9)
    return {
        partition.partition_index: PartitionState(
            leader=partition.leader_id if partition.leader_id >= 0 else None,
            isr=frozenset(partition.isr_nodes),
            replicas=frozenset(partition.replica_nodes),
        )
        for described in (() if answer is None else answer.topics)
        for partition in described.partitions
    }


def elect_unclean(port: int, asked: Collection[tuple[str, int]], *, dial: Dial = plaintext) -> None:
    """Asks for an unclean election of these (topic, partition); who leads afterwards, `partitions` tells.

    The broker listening on 127.0.0.1:`port` hands it to the controller. Written out here because
    elect_leaders of confluent-kafka 2.16.1 raises SystemError when it is given a timeout.
    """
    topic = ElectLeadersRequest.TopicPartitions
    numbers: dict[str, list[int]] = {}
    for name, number in sorted(asked):
        numbers.setdefault(name, []).append(number)
    request = ElectLeadersRequest[_ELECT_LEADERS_V2](
        election_type=_UNCLEAN,
        topic_partitions=[topic(topic=name, partitions=listed) for name, listed in numbers.items()],
        timeout_ms=int(ANSWER_WITHIN_S * 500),
    )
    _ask(dial, port, request, ElectLeadersResponse, _ELECT_LEADERS_V2)


def listens(port: int) -> bool:
    """Whether something accepts connections on 127.0.0.1:`port`."""
    try:
        socket.create_connection(("127.0.0.1", port), ANSWER_WITHIN_S).close()
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


def _ask(dial: Dial, port: int, request: Any, response: Any, version: int) -> Any:
    """The decoded answer, or None when nobody answered in time."""
    try:
        with dial(port) as connection:
            return exchange(connection, request, response, version)
    except OSError:
        return None


def exchange(connection: socket.socket, request: Any, response: Any, version: int) -> Any:
    """Sends one request and returns its answer, decoded.

    Raises:
        OSError: no answer came in time.
        LabError: what came is not one.
    """
    request.with_header(correlation_id=1, client_id=_CLIENT_ID)
    connection.sendall(request.encode(header=True, framed=True))
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    answer = _exactly(connection, size)
    try:
        return response.decode(answer, version=version, header=True)
    except (ValueError, IndexError, struct.error) as error:
        raise LabError(f"a node answered {request.name} with bytes that do not decode") from error


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        more = connection.recv(size - len(received))
        if not more:
            raise ConnectionError("closed before the whole answer was there")
        received += more
    return bytes(received)
