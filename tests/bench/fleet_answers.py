"""The bytes that the doubles of one cluster answer: written once by kafka-python's encoders, then patched in place.

A quorum of three controllers and three brokers, Kafka 4.3: Fetch 18, DescribeQuorum 2, DescribeCluster 2.
"""

import struct
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from connectors.kafka.kafka_python import DescribeClusterResponse, DescribeConfigsResponse, DescribeQuorumResponse
from connectors.kafka.kafka_python import FetchResponse as Fetch
from connectors.kafka.kafka_python import FetchSnapshotResponse as FetchSnapshot
from tests.unit.connectors.metadata.metadata_bytes import batch, noop, uvarint
from tests.unit.connectors.metadata.test_refused_values import metadata, raft, voters

API_VERSIONS: Final = {1: (12, 18), 18: (0, 4), 32: (1, 4), 55: (0, 2), 59: (0, 1), 60: (0, 2)}
NODES: Final = (1, 2, 3)
BROKERS: Final = (101, 102, 103)
TOPIC: Final = "__cluster_metadata"
_SENTINEL: Final = 0x5A5A_0000_0000_0000
_HIGH_WATERMARK: Final = _SENTINEL + 1
_LOG_END: Final = _SENTINEL + 2
_NOW_MS: Final = _SENTINEL + 3
_RECORDS: Final = b"the records stand here"
_INT64: Final = struct.Struct(">q")
NOT_LEADER: Final = 6
FENCED_LEADER_EPOCH: Final = 74


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """One controller of a cluster."""

    node: int
    host: str
    port: int

    @property
    def directory_id(self) -> bytes:
        """The id of its log directory."""
        return UUID(int=0x1000_0000_0000_4000_8000_0000_0000_0000 + self.node).bytes


class ClusterAnswers:
    """The answers of one cluster while one controller leads it."""

    def __init__(
        self, cluster_id: str, controllers: tuple[Controller, ...], *, leader: int, epoch: int, log_start: int
    ) -> None:
        self._cluster_id, self._controllers = cluster_id, controllers
        self._leader, self._epoch = leader, epoch
        self._quorum = self._describe_quorum(error=0)
        self._quorum_places = {value: _places(self._quorum, value) for value in (_HIGH_WATERMARK, _LOG_END, _NOW_MS)}
        self.not_leading_quorum = self._describe_quorum(error=NOT_LEADER)
        fetched = self._fetch(error=0, records=_RECORDS, log_start=log_start)
        before, after = fetched.split(uvarint(len(_RECORDS) + 1) + _RECORDS)
        self._fetch_place = _places(before, _HIGH_WATERMARK)[0]
        self._fetched, self._fetched_tail = before, after
        self.not_leading_fetch = self._fetch(error=NOT_LEADER, records=b"", log_start=-1, high_watermark=-1)
        self.fenced_fetch = self._fetch(error=FENCED_LEADER_EPOCH, records=b"", log_start=-1, high_watermark=-1)

    def describe_quorum(self, *, high_watermark: int, log_end: int, now_ms: int) -> bytes:
        """Returns the leader's DescribeQuorum response."""
        answer = bytearray(self._quorum)
        for sentinel, value in ((_HIGH_WATERMARK, high_watermark), (_LOG_END, log_end), (_NOW_MS, now_ms)):
            for place in self._quorum_places[sentinel]:
                _INT64.pack_into(answer, place, value)
        return bytes(answer)

    def fetch(self, *, high_watermark: int, records: bytes) -> bytes:
        """Returns the leader's Fetch response."""
        answer = bytearray(self._fetched)
        _INT64.pack_into(answer, self._fetch_place, high_watermark)
        return bytes(answer) + uvarint(len(records) + 1) + records + self._fetched_tail

    def snapshot_named(self, *, high_watermark: int, end_offset: int, epoch: int) -> bytes:
        """Returns the leader's response to a Fetch below its log start: the snapshot to fetch."""
        return self._fetch(
            error=0,
            records=b"",
            log_start=end_offset,
            high_watermark=high_watermark,
            snapshot_id=Fetch.FetchableTopicResponse.PartitionData.SnapshotId(end_offset=end_offset, epoch=epoch),
        )

    def describe_cluster(self) -> bytes:
        """Returns a DescribeCluster response that lists the controllers."""
        brokers = [
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=each.node, host=each.host, port=each.port, rack=None, is_fenced=False
            )
            for each in self._controllers
        ]
        answer = DescribeClusterResponse(
            error_code=0, endpoint_type=2, cluster_id=self._cluster_id, controller_id=self._leader, brokers=brokers
        )
        return bytes(answer.encode(version=2))

    def _describe_quorum(self, *, error: int) -> bytes:
        partition_type = DescribeQuorumResponse.TopicData.PartitionData

        def replica(node: int, directory_id: bytes) -> Any:
            return partition_type.ReplicaState(
                replica_id=node,
                replica_directory_id=UUID(bytes=directory_id),
                log_end_offset=_LOG_END,
                last_fetch_timestamp=_NOW_MS,
                last_caught_up_timestamp=_NOW_MS,
            )

        leads = not error
        partition = partition_type(
            partition_index=0,
            error_code=error,
            leader_id=self._leader,
            leader_epoch=self._epoch,
            high_watermark=_HIGH_WATERMARK if leads else -1,
            current_voters=[replica(each.node, each.directory_id) for each in self._controllers] if leads else [],
            observers=[replica(node, UUID(int=node).bytes) for node in BROKERS] if leads else [],
        )
        listener_type = DescribeQuorumResponse.Node.Listener
        nodes = [
            DescribeQuorumResponse.Node(
                node_id=each.node, listeners=[listener_type(name="CONTROLLER", host=each.host, port=each.port)]
            )
            for each in self._controllers
        ]
        answer = DescribeQuorumResponse(
            error_code=0,
            topics=[DescribeQuorumResponse.TopicData(topic_name=TOPIC, partitions=[partition])],
            nodes=nodes if leads else [],
        )
        return bytes(answer.encode(version=2))

    def _fetch(
        self,
        *,
        error: int,
        records: bytes,
        log_start: int,
        high_watermark: int = _HIGH_WATERMARK,
        snapshot_id: Any = None,
    ) -> bytes:
        partition_type = Fetch.FetchableTopicResponse.PartitionData
        partition = partition_type(
            partition_index=0,
            error_code=error,
            high_watermark=high_watermark,
            last_stable_offset=high_watermark,
            log_start_offset=log_start,
            current_leader=partition_type.LeaderIdAndEpoch(leader_id=self._leader, leader_epoch=self._epoch),
            aborted_transactions=[],
            records=records,
            **({} if snapshot_id is None else {"snapshot_id": snapshot_id}),
        )
        leader = next(each for each in self._controllers if each.node == self._leader)
        endpoint = Fetch.NodeEndpoint(node_id=leader.node, host=leader.host, port=leader.port, rack=None)
        topic = Fetch.FetchableTopicResponse(topic_id=UUID(int=1), partitions=[partition])
        answer = Fetch(throttle_time_ms=0, error_code=0, responses=[topic], node_endpoints=[endpoint])
        return bytes(answer.encode(version=18))


def api_versions() -> bytes:
    """Returns the body of an ApiVersions response of version 4, which has no flexible header."""
    apis = b"".join(struct.pack(">hhh", api, *versions) + b"\0" for api, versions in API_VERSIONS.items())
    return struct.pack(">h", 0) + bytes([len(API_VERSIONS) + 1]) + apis + struct.pack(">i", 0) + b"\0"


def describe_configs(node: int) -> bytes:
    """Returns a DescribeConfigs response of the node that was named."""
    result = DescribeConfigsResponse.DescribeConfigsResult(
        error_code=0, error_message=None, resource_type=4, resource_name=str(node), configs=[]
    )
    return bytes(DescribeConfigsResponse(results=[result]).encode(version=4))


def snapshot_piece(content: bytes, position: int, most: int, *, end_offset: int, epoch: int, leader: int) -> bytes:
    """Returns a FetchSnapshot response with the bytes from `position` on."""
    partition_type = FetchSnapshot.TopicSnapshot.PartitionSnapshot
    partition = partition_type(
        index=0,
        error_code=0,
        snapshot_id=partition_type.SnapshotId(end_offset=end_offset, epoch=epoch),
        current_leader=partition_type.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
        size=len(content),
        position=position,
        unaligned_records=content[position : position + most],
    )
    topic = FetchSnapshot.TopicSnapshot(name=TOPIC, partitions=[partition])
    return bytes(FetchSnapshot(error_code=0, topics=[topic]).encode(version=1))


def first_batches(controllers: tuple[Controller, ...], *, epoch: int, now_ms: int) -> list[bytes]:
    """Returns the start of a log: the first leader, kraft.version 1 with the voters, metadata.version."""
    listed = [
        {
            "voter_id": each.node,
            "voter_directory_id": each.directory_id,
            "endpoints": [{"name": "CONTROLLER", "host": each.host, "port": each.port}],
        }
        for each in controllers
    ]
    level = metadata(12, 0, {"name": "metadata.version", "feature_level": 30})
    return [
        batch([raft(5, kraft_version=1), voters(*listed)], base_offset=0, epoch=0, timestamp=now_ms),
        leader_change(controllers[0].node, base_offset=2, epoch=epoch, now_ms=now_ms),
        batch([level], base_offset=3, epoch=epoch, timestamp=now_ms),
    ]


def leader_change(leader: int, *, base_offset: int, epoch: int, now_ms: int) -> bytes:
    """Returns the batch that a new leader writes first."""
    members = [{"voter_id": node, "voter_directory_id": bytes(16)} for node in NODES]
    record = raft(2, leader_id=leader, voters=members, granting_voters=members)
    return batch([record], base_offset=base_offset, epoch=epoch, timestamp=now_ms)


def broker_registered(*, base_offset: int, epoch: int, now_ms: int) -> bytes:
    """Returns the batch with which the first broker registers, not fenced."""
    listener = {"name": "PLAINTEXT", "host": "broker", "port": 9092, "security_protocol": 0}
    values = {
        "broker_id": BROKERS[0],
        "is_migrating_zk_broker": False,
        "incarnation_id": bytes(16),
        "broker_epoch": base_offset,
        "end_points": [listener],
        "features": [
            {"name": name, "min_supported_version": lowest, "max_supported_version": highest}
            for name, lowest, highest in (("metadata.version", 1, 30), ("kraft.version", 0, 1))
        ],
        "rack": None,
        "fenced": False,
        "in_controlled_shutdown": False,
        "log_dirs": [],
    }
    return batch([metadata(0, 3, values)], base_offset=base_offset, epoch=epoch, timestamp=now_ms)


def broker_changed(*, fenced: bool, registered_at: int, base_offset: int, epoch: int, now_ms: int) -> bytes:
    """Returns the batch that fences or unfences the broker which registered at that offset."""
    values = {
        "broker_id": BROKERS[0],
        "broker_epoch": registered_at,
        "fenced": 1 if fenced else -1,
        "in_controlled_shutdown": 0,
    }
    return batch([metadata(17, 0, values)], base_offset=base_offset, epoch=epoch, timestamp=now_ms)


def noop_batch(now_ms: int) -> bytearray:
    """Returns a batch of one NoOpRecord; `place_batch` sets its offset and epoch, which its CRC does not cover."""
    return bytearray(batch([noop()], timestamp=now_ms))


def place_batch(content: bytearray, *, base_offset: int, epoch: int) -> bytes:
    """Returns the batch at this offset."""
    _INT64.pack_into(content, 0, base_offset)
    struct.pack_into(">i", content, 12, epoch)
    return bytes(content)


def _places(content: bytes, sentinel: int) -> list[int]:
    wanted, found, at = _INT64.pack(sentinel), [], -1
    while (at := content.find(wanted, at + 1)) >= 0:
        found.append(at)
    return found
