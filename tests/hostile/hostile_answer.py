"""Hostile responses of a Kafka node, as bytes, and what the gatherer's own protocol and parsers make of them."""

import struct
from random import Random
from typing import Any
from uuid import UUID

from kafka import errors as kafka_errors
from kafka.protocol.admin import DescribeQuorumResponse
from kafka.protocol.consumer import FetchResponse

from connectors.errors import ObservationError, UndecodableError
from connectors.gather.commit_buffer import CommitBuffer, FetchPosition, SnapshotBuffer
from connectors.kafka.bounded_protocol import BoundedProtocol
from connectors.kafka.client import Address
from connectors.kafka.messages import (
    TOPIC,
    TOPIC_ID,
    describe_quorum_request,
    empty_fetch_request,
    fetch_snapshot_request,
    parse_describe_quorum,
    parse_fetch,
    parse_fetch_snapshot,
)
from connectors.kafka.schemas import FetchSnapshotResponse
from connectors.metadata.redaction import redact
from connectors.observations.observation import Observation, ObservationKind, to_json
from rules.model.identifiers import SnapshotId
from tests.hostile.byte_mutation import mutated
from tests.hostile.hostile_log import hostile_log, hostile_snapshot

AT = Address("c1.test", 9093)
_SPECIAL = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 60, 100, 2**31 - 1, 2**40, 2**62, 2**63 - 1, 253_402_300_800_000)
_REFUSALS = (ObservationError, UndecodableError, kafka_errors.KafkaError, ValueError, struct.error, IndexError)
"""What the connection turns into a failed observation (`connectors.kafka.transport`, `client`)."""


class HostileAnswers:
    """Makes responses and passes them to the code that reads responses."""

    def __init__(self, rng: Random, *, position: int, cluster: str) -> None:
        self._rng = rng
        self._position = position
        self._cluster = cluster

    def observation(self) -> Observation | None:
        """Returns the row that the gatherer writes for one hostile response; None if the response is refused.

        Raises:
            Exception: anything but a refusal: a fault of the product.
        """
        match self._rng.randrange(3):
            case 0:
                return self._quorum()
            case 1:
                return self._fetch()
            case _:
                return self._snapshot()

    def _quorum(self) -> Observation | None:
        request = describe_quorum_request()
        request.API_VERSION = self._rng.choice((0, 1, 2, 2, 2))
        partition_type = DescribeQuorumResponse.TopicData.PartitionData
        partition = partition_type(
            partition_index=0,
            error_code=self._mostly(0, 16),
            error_message="",
            leader_id=self._mostly(1, 32),
            leader_epoch=self._mostly(1, 32),
            high_watermark=self._mostly(self._position, 64),
            current_voters=[self._replica(number) for number in range(self._count(3))],
            observers=[self._replica(100 + number) for number in range(self._count(3))],
        )
        topic = DescribeQuorumResponse.TopicData(topic_name=TOPIC, partitions=[partition] * self._mostly_one())
        nodes = [self._node(number) for number in range(self._count(3))] if request.API_VERSION >= 2 else []
        response = DescribeQuorumResponse(
            error_code=self._mostly(0, 16), error_message="", topics=[topic] * self._mostly_one(), nodes=nodes
        )
        received = self._received(request, response)
        if received is None:
            return None
        try:
            event = parse_describe_quorum(received, cluster_id="x", address=AT)
        except ObservationError:
            return None
        return Observation(cluster=self._cluster, kind=ObservationKind.QUORUM, observed_at_ms=0, payload=to_json(event))

    def _fetch(self) -> Observation | None:
        request = empty_fetch_request("x")
        request.API_VERSION = self._rng.choice((12, 16, 17, 18))
        partition_type = FetchResponse.FetchableTopicResponse.PartitionData
        log = hostile_log(self._rng, base_offset=self._position + 1, secret="secret")
        partition = partition_type(
            partition_index=0,
            error_code=self._mostly(0, 16),
            high_watermark=self._mostly(self._position + 4, 64),
            log_start_offset=self._mostly(0, 64),
            diverging_epoch=partition_type.EpochEndOffset(epoch=self._rare(32), end_offset=self._rare(64)),
            current_leader=partition_type.LeaderIdAndEpoch(
                leader_id=self._mostly(1, 32), leader_epoch=self._mostly(9, 32)
            ),
            snapshot_id=partition_type.SnapshotId(end_offset=self._rare(64), epoch=self._rare(32)),
            aborted_transactions=None,
            records=log.payload,
        )
        topic = FetchResponse.FetchableTopicResponse(
            topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition] * self._mostly_one()
        )
        response = FetchResponse(error_code=0, session_id=0, responses=[topic] * self._mostly_one(), node_endpoints=[])
        received = self._received(request, response)
        if received is None:
            return None
        buffer = CommitBuffer(FetchPosition(offset=self._position + 1, epoch=1))
        try:
            result = buffer.accept(parse_fetch(received), now_ms=1)
        except (ObservationError, UndecodableError):
            return None
        records = result.committed
        if records is None:
            return None
        return Observation(
            cluster=self._cluster,
            kind=ObservationKind.RECORDS,
            observed_at_ms=0,
            base_offset=records.base_offset,
            last_offset=records.last_offset,
            leader_epoch=records.leader_epoch,
            high_watermark=records.high_watermark,
            payload=redact(records.batches),
        )

    def _snapshot(self) -> Observation | None:
        snapshot = SnapshotId(end_offset=self._position + 10, epoch=9)
        request = fetch_snapshot_request(
            cluster_id="x", leader_epoch=9, snapshot=snapshot, position=0, max_bytes=65_536
        )
        request.API_VERSION = self._rng.choice((0, 1))
        content = hostile_snapshot(self._rng, secret="secret").payload
        partition_type = FetchSnapshotResponse.TopicSnapshot.PartitionSnapshot
        partition = partition_type(
            index=0,
            error_code=self._mostly(0, 16),
            snapshot_id=partition_type.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
            current_leader=partition_type.LeaderIdAndEpoch(leader_id=1, leader_epoch=9),
            size=self._mostly(len(content), 64),
            position=self._mostly(0, 64),
            unaligned_records=content,
        )
        topic = FetchSnapshotResponse.TopicSnapshot(name=TOPIC, partitions=[partition] * self._mostly_one())
        response = FetchSnapshotResponse(error_code=0, topics=[topic] * self._mostly_one(), node_endpoints=[])
        received = self._received(request, response)
        if received is None:
            return None
        try:
            result = parse_fetch_snapshot(received)
            batches = SnapshotBuffer(snapshot).receive(
                position=result.position, size=result.size, records=result.records
            )
        except (ObservationError, UndecodableError):
            return None
        return Observation(
            cluster=self._cluster,
            kind=ObservationKind.SNAPSHOT,
            observed_at_ms=0,
            base_offset=snapshot.end_offset,
            last_offset=0,
            leader_epoch=snapshot.epoch,
            payload=redact(batches),
        )

    def _received(self, request: Any, response: Any) -> Any:
        """Returns the decoded response after its bytes were mutated; None if the protocol refuses it."""
        protocol = BoundedProtocol(client_id="kraftwatch")
        correlation = protocol.send_request(request)
        header = struct.pack(">i", correlation) + b"\0"
        content = header + response.encode(version=request.API_VERSION)
        if self._rng.random() < 0.5:
            content = mutated(content, self._rng, times=self._rng.choice((1, 1, 2, 4)))
        size = len(content) if self._rng.random() < 0.98 else self._mostly(len(content), 32)
        try:
            received = protocol.receive_bytes(struct.pack(">i", size) + content)
            if protocol.large is not None:
                return protocol.large.decode()
        except _REFUSALS:
            return None
        return received[0][1] if received else None

    def _replica(self, number: int) -> Any:
        return DescribeQuorumResponse.TopicData.PartitionData.ReplicaState(
            replica_id=self._mostly(number, 32),
            replica_directory_id=UUID(int=self._rng.choice((0, 1, number, number))),
            log_end_offset=self._mostly(self._position, 64),
            last_fetch_timestamp=self._mostly(1_790_000_000_000, 64),
            last_caught_up_timestamp=self._mostly(1_790_000_000_000, 64),
        )

    def _node(self, number: int) -> Any:
        listener_type = DescribeQuorumResponse.Node.Listener
        listeners = [
            listener_type(name="CONTROLLER", host=self._rng.choice(("c1.test", "", "x" * 300)), port=9093)
            for _ in range(self._mostly_one())
        ]
        return DescribeQuorumResponse.Node(node_id=self._mostly(number, 32), listeners=listeners)

    def _count(self, usual: int) -> int:
        return usual if self._rng.random() < 0.95 else self._rng.choice((0, 1, 50, 1_001))

    def _mostly_one(self) -> int:
        return 1 if self._rng.random() < 0.98 else self._rng.choice((0, 2, 17))

    def _mostly(self, usual: int, bits: int) -> int:
        return usual if self._rng.random() < 0.97 else self._special(bits)

    def _rare(self, bits: int) -> int:
        return -1 if self._rng.random() < 0.95 else self._special(bits)

    def _special(self, bits: int) -> int:
        limit = 1 << (bits - 1)
        return min(max(self._rng.choice(_SPECIAL), -limit), limit - 1)
