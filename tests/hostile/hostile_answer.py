"""Hostile responses of a Kafka node, as bytes, and what the gatherer's own protocol and parsers make of them."""

import struct
from random import Random
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.data_container import DataContainer

from connectors.errors import ObservationError, UndecodableError
from connectors.gather.commit_buffer import CommitBuffer, FetchPosition, SnapshotBuffer
from connectors.kafka.bounded_protocol import BoundedProtocol
from connectors.kafka.cluster_connection import Address
from connectors.kafka.messages import (
    describe_quorum_request,
    fetch_request,
    fetch_snapshot_request,
    parse_describe_quorum,
    parse_fetch,
    parse_fetch_snapshot,
)
from connectors.metadata.redaction import redact
from connectors.observations.observation import Observation, ObservationKind, to_json
from rules.model.identifiers import SnapshotId
from tests.hostile.byte_mutation import mutated, special_number
from tests.hostile.hostile_log import hostile_log, hostile_snapshot
from tests.unit.connectors.kafka.kafka_answers import (
    PARTITION,
    fetch_answer,
    node_row,
    piece_answer,
    quorum_answer,
    replica_row,
)

AT = Address("c1.test", 9093)
_BYTES = {"int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8}
_FEW = (0, 1, 2, 3, 7, 60, 100)
_RARELY = 0.02
_NOW_MS = 1_790_000_000_000
_REFUSALS = (ObservationError, kafka_errors.KafkaError)
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
        answer = quorum_answer(
            epoch=1,
            high_watermark=self._position,
            voters=[self._replica(number) for number in range(self._count())],
            observers=[self._replica(100 + number) for number in range(self._count())],
            nodes=[self._node(number) for number in range(self._count())] if request.API_VERSION >= 2 else [],
        )
        received = self._received(request, answer)
        if received is None:
            return None
        try:
            event = parse_describe_quorum(received, cluster_id="x", address=AT)
        except ObservationError:
            return None
        return Observation(cluster=self._cluster, kind=ObservationKind.QUORUM, observed_at_ms=0, payload=to_json(event))

    def _fetch(self) -> Observation | None:
        request = fetch_request(cluster_id="x")
        request.API_VERSION = self._rng.choice((12, 16, 17, 18))
        answer = fetch_answer(
            leader=1,
            epoch=9,
            high_watermark=self._position + 4,
            log_start_offset=0,
            diverging_epoch=PARTITION.EpochEndOffset(),
            snapshot_id=PARTITION.SnapshotId(),
            records=hostile_log(self._rng, base_offset=self._position + 1, secret="secret"),
        )
        received = self._received(request, answer)
        if received is None:
            return None
        buffer = CommitBuffer(FetchPosition(offset=self._position + 1, epoch=1))
        try:
            records = buffer.accept(parse_fetch(received), now_ms=1).committed
        except (ObservationError, UndecodableError):
            return None
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
        received = self._received(request, piece_answer(hostile_snapshot(self._rng, secret="secret")))
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
        """Returns the decoded response after its values and bytes were changed; None if the protocol refuses it."""
        self._change(response)
        protocol = BoundedProtocol(client_id="kraftwatch")
        correlation = protocol.send_request(request)
        header = struct.pack(">i", correlation) + b"\0"
        content = header + response.encode(version=request.API_VERSION)
        if self._rng.random() < 0.5:
            content = mutated(content, self._rng, times=self._rng.choice((1, 1, 2, 4)))
        size = struct.pack(">i", len(content)) if self._rng.random() < 0.98 else special_number(self._rng, 4)
        try:
            received = protocol.receive_bytes(size + content)
        except _REFUSALS:
            return None
        return received[0][1] if received else None

    def _change(self, values: Any) -> None:
        """Changes any number of a response, and the length of any list, each rarely."""
        for name, field in type(values).fields.items():
            value, type_ = getattr(values, name), field._type_str
            if type_ in _BYTES:
                if self._rng.random() < _RARELY:
                    number = int.from_bytes(special_number(self._rng, _BYTES[type_]), signed=type_ != "uint16")
                    setattr(values, name, self._rng.choice((number, number, *_FEW)))
                continue
            if isinstance(value, list) and self._rng.random() < _RARELY:
                value[:] = value * self._rng.choice((0, 2, 17))
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, DataContainer):
                    self._change(each)

    def _replica(self, number: int) -> Any:
        directory = self._rng.choice((0, 1, number, number)).to_bytes(16)
        return replica_row(number, directory, self._position, _NOW_MS, _NOW_MS)

    def _node(self, number: int) -> Any:
        return node_row(number, ("CONTROLLER", self._rng.choice(("c1.test", "", "x" * 300)), 9093))

    def _count(self) -> int:
        return 3 if self._rng.random() < 0.95 else self._rng.choice((0, 1, 50, 1_001))
