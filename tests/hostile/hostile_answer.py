"""Hostile responses of a Kafka node, as bytes, and what the gatherer's own protocol and parsers make of them."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.data_container import DataContainer

from connectors.errors import DamagedLogError, ObservationError, UndecodableError
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
from tests.hostile.monitored_path import MonitoredPath
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
_CORRELATION_ID = slice(8, 12)
"""Where it is in the frame of a request."""
_REFUSALS = (ObservationError, kafka_errors.KafkaError)
"""What the connection turns into a failed observation (`connectors.kafka.connection`, `client`)."""
Exchange = tuple[Any, Sequence[int], Any, Callable[[Any], Observation | None]]
"""A request, the versions of its response, a response, and the row that the gatherer makes of a decoded one."""


@dataclass(frozen=True, slots=True)
class HostileAnswers:
    """Makes responses and passes them to the code that reads responses."""

    rng: Random
    path: MonitoredPath

    def observation(self) -> Observation | None:
        """Returns the row that the gatherer writes for one hostile response; None if the response is refused.

        Raises:
            Exception: anything but a refusal: a fault of the product.
        """
        request, versions, answer, row_of = self.rng.choice((self._quorum, self._fetch, self._snapshot))()
        request.API_VERSION = self.rng.choice(versions)
        received = self._received(request, answer)
        try:
            return None if received is None else row_of(received)
        except (ObservationError, UndecodableError, DamagedLogError):
            return None

    def _quorum(self) -> Exchange:
        answer = quorum_answer(
            epoch=1,
            high_watermark=self.path.position,
            voters=[self._replica(number) for number in range(self._count())],
            observers=[self._replica(100 + number) for number in range(self._count())],
            # Version 2 and later have them.
            nodes=[self._node(number) for number in range(self._count())],
        )

        def row_of(received: Any) -> Observation:
            event = parse_describe_quorum(received, cluster_id="x", address=AT)
            return self.path.row(ObservationKind.QUORUM, to_json(event))

        return describe_quorum_request(), (0, 1, 2, 2, 2), answer, row_of

    def _fetch(self) -> Exchange:
        position = self.path.position
        answer = fetch_answer(
            leader=1,
            epoch=9,
            high_watermark=position + 4,
            log_start_offset=0,
            diverging_epoch=PARTITION.EpochEndOffset(),
            snapshot_id=PARTITION.SnapshotId(),
            records=hostile_log(self.rng, base_offset=position + 1, secret="secret"),
        )

        def row_of(received: Any) -> Observation | None:
            buffer = CommitBuffer(FetchPosition(offset=position + 1, epoch=1))
            records = buffer.accept(parse_fetch(received), now_ms=1).committed
            if records is None:
                return None
            offsets = {"base_offset": records.base_offset, "last_offset": records.last_offset}
            known = {"leader_epoch": records.leader_epoch, "high_watermark": records.high_watermark}
            return self.path.row(ObservationKind.RECORDS, redact(records.batches), **offsets, **known)

        return fetch_request(cluster_id="x"), (12, 16, 17, 18), answer, row_of

    def _snapshot(self) -> Exchange:
        snapshot = SnapshotId(end_offset=self.path.position + 10, epoch=9)
        request = fetch_snapshot_request(
            cluster_id="x", leader_epoch=9, snapshot=snapshot, position=0, max_bytes=65_536
        )

        def row_of(received: Any) -> Observation:
            piece = parse_fetch_snapshot(received)
            place = {"position": piece.position, "size": piece.size}
            batches = SnapshotBuffer(snapshot).receive(**place, records=piece.records)
            known = {"base_offset": snapshot.end_offset, "last_offset": 0, "leader_epoch": snapshot.epoch}
            return self.path.row(ObservationKind.SNAPSHOT, redact(batches), **known)

        return request, (0, 1), piece_answer(hostile_snapshot(self.rng, secret="secret")), row_of

    def _received(self, request: Any, response: Any) -> Any:
        """Returns the decoded response after its values and bytes were changed; None if the protocol refuses it."""
        self._change(response)
        protocol = BoundedProtocol("kraftwatch")
        header = protocol.encoded(request)[_CORRELATION_ID] + b"\0"
        content = header + response.encode(version=request.API_VERSION)
        if self.rng.random() < 0.5:
            content = mutated(content, self.rng, times=self.rng.choice((1, 1, 2, 4)))
        size = struct.pack(">i", len(content)) if self.rng.random() < 0.98 else special_number(self.rng, 4)
        try:
            received = protocol.decoded(size + content)
        except _REFUSALS:
            return None
        return received[0] if received else None

    def _change(self, values: Any) -> None:
        """Changes any number of a response, and the length of any list, each rarely."""
        for name, field in type(values).fields.items():
            value, type_ = getattr(values, name), field._type_str
            if type_ in _BYTES:
                if self.rng.random() < _RARELY:
                    number = int.from_bytes(special_number(self.rng, _BYTES[type_]), signed=type_ != "uint16")
                    setattr(values, name, self.rng.choice((number, number, *_FEW)))
                continue
            if isinstance(value, list) and self.rng.random() < _RARELY:
                value[:] = value * self.rng.choice((0, 2, 17))
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, DataContainer):
                    self._change(each)

    def _replica(self, number: int) -> Any:
        directory = self.rng.choice((0, 1, number, number)).to_bytes(16)
        return replica_row(number, directory, self.path.position, _NOW_MS, _NOW_MS)

    def _node(self, number: int) -> Any:
        return node_row(number, ("CONTROLLER", self.rng.choice(("c1.test", "", "x" * 300)), 9093))

    def _count(self) -> int:
        return 3 if self.rng.random() < 0.95 else self.rng.choice((0, 1, 50, 1_001))
