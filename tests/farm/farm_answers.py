"""The bytes that a cluster of the farm answers: recorded from a real quorum (tests/data/answers), then patched.

Patched is what differs by cluster and time: cluster id, the controllers' endpoints, leader and epoch, offsets, times
and records. The log is written here: an election, the voters and the registrations; then NoOps and fenced brokers.
"""

import base64
import copy
import json
import lzma
import struct
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from kafka.protocol.admin import DescribeClusterResponse, DescribeConfigsResponse, DescribeQuorumResponse
from kafka.protocol.consumer import FetchResponse

from connectors.kafka.error_code import ErrorCode
from tests.unit.connectors.metadata.metadata_bytes import batch, noop, uvarint
from tests.unit.connectors.metadata.metadata_record_schemas import metadata_value, raft_value
from tests.unit.connectors.metadata.voters_bytes import voters

NODES: Final = (1, 2, 3)
BROKER: Final = 901
"""Fenced and unfenced; it has no process, and is caught up in every answer."""
LEADER, EPOCH = 1, 1
FETCH, API_VERSIONS, DESCRIBE_CONFIGS, DESCRIBE_QUORUM, DESCRIBE_CLUSTER = 1, 18, 32, 55, 60
_RECORDING = Path(__file__).parents[1] / "data" / "answers" / "quorum-4.3.jsonl.xz"
_RESPONSES: Mapping[int, tuple[Any, int]] = {
    FETCH: (FetchResponse, 18),
    DESCRIBE_CONFIGS: (DescribeConfigsResponse, 4),
    DESCRIBE_QUORUM: (DescribeQuorumResponse, 2),
    DESCRIBE_CLUSTER: (DescribeClusterResponse, 2),
}
"""The class and the version of each response in which the gatherer asks Kafka 4.3."""
_SENTINEL: Final = 0x5A5A_0000_0000_0000
_HIGH_WATERMARK, _LOG_END, _NOW_MS = _SENTINEL + 1, _SENTINEL + 2, _SENTINEL + 3
_RECORDS: Final = b"the records stand here"
_INT64: Final = struct.Struct(">q")
_INCARNATION: Final = bytes(range(16))
_UNFENCED, _FENCED = -1, 1
Controllers = Mapping[int, tuple[str, int]]
"""Host and port by node id."""


@cache
def recorded(api: int) -> tuple[tuple[int, bytes], ...]:
    """Returns the bodies of the responses of one API, each with the controller that sent it, in order."""
    _, *lines = map(json.loads, lzma.decompress(_RECORDING.read_bytes()).splitlines())
    header = 4 if api == API_VERSIONS else 5
    return tuple((one["node"], base64.b64decode(one["answer"])[header:]) for one in lines if one["api"] == api)


def _decoded(api: int, wanted: Callable[[Any], bool] = lambda _: True) -> Any:
    """Returns the first response of an API that is wanted, decoded."""
    response, version = _RESPONSES[api]
    answers = (response.decode(body, version=version) for _, body in recorded(api))
    return next(one for one in answers if wanted(one))


class ClusterAnswers:
    """The answers of one cluster."""

    def __init__(self, cluster_id: str, controllers: Controllers) -> None:
        self._cluster_id, self._controllers = cluster_id, controllers
        self._quorum = self._describe_quorum(ErrorCode.NONE)
        self.not_leading_quorum = self._describe_quorum(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._before, self._after = self._fetch(ErrorCode.NONE, _RECORDS).split(uvarint(len(_RECORDS) + 1) + _RECORDS)
        self.not_leading_fetch = self._fetch(ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")
        self.fenced_fetch = self._fetch(ErrorCode.FENCED_LEADER_EPOCH, b"")
        self.describe_cluster = self._describe_cluster()

    def describe_quorum(self, *, high_watermark: int, log_end: int, now_ms: int) -> bytes:
        """Returns the leader's DescribeQuorum response."""
        return _filled(self._quorum, {_HIGH_WATERMARK: high_watermark, _LOG_END: log_end, _NOW_MS: now_ms})

    def fetch(self, *, high_watermark: int, records: bytes) -> bytes:
        """Returns the leader's Fetch response."""
        before = _filled(self._before, {_HIGH_WATERMARK: high_watermark})
        return before + uvarint(len(records) + 1) + records + self._after

    def directories(self) -> Mapping[int, Any]:
        """Returns the directory id of each voter."""
        partition = _decoded(DESCRIBE_QUORUM, _without_error).topics[0].partitions[0]
        return {each.replica_id: each.replica_directory_id for each in partition.current_voters}

    def _describe_quorum(self, error: int) -> bytes:
        answer = _decoded(DESCRIBE_QUORUM, lambda one: one.topics[0].partitions[0].error_code == error)
        partition = answer.topics[0].partitions[0]
        if not error:
            partition.leader_id, partition.leader_epoch = LEADER, EPOCH
            partition.high_watermark = _HIGH_WATERMARK
            partition.observers = [copy.copy(partition.current_voters[0])]
            partition.observers[0].replica_id = BROKER
            partition.observers[0].replica_directory_id = UUID(int=BROKER)
        for replica in (*partition.current_voters, *(partition.observers or ())):
            replica.log_end_offset = _LOG_END
            replica.last_fetch_timestamp = replica.last_caught_up_timestamp = _NOW_MS
        for node in answer.nodes or ():
            for listener in node.listeners:
                listener.host, listener.port = self._controllers[node.node_id]
        return bytes(answer.encode())

    def _fetch(self, error: int, records: bytes) -> bytes:
        def wanted(one: Any) -> bool:
            partition = one.responses[0].partitions[0] if one.responses else None
            return partition is not None and partition.error_code == error and bool(error or partition.records)

        answer = _decoded(FETCH, wanted)
        partition = answer.responses[0].partitions[0]
        partition.current_leader.leader_id, partition.current_leader.leader_epoch = LEADER, EPOCH
        if not error:
            if partition.last_stable_offset == partition.high_watermark:
                partition.last_stable_offset = _HIGH_WATERMARK
            partition.high_watermark, partition.log_start_offset = _HIGH_WATERMARK, 0
        partition.records = records
        for endpoint in answer.node_endpoints or ():
            # A response names the leader's endpoint only.
            endpoint.node_id = LEADER
            endpoint.host, endpoint.port = self._controllers[LEADER]
        return bytes(answer.encode())

    def _describe_cluster(self) -> bytes:
        answer = _decoded(DESCRIBE_CLUSTER)
        answer.cluster_id, answer.controller_id = self._cluster_id, LEADER
        for one in answer.brokers:
            one.host, one.port = self._controllers[one.broker_id]
        return bytes(answer.encode())


def describe_configs(node: int) -> bytes:
    """Returns the DescribeConfigs response of this controller, as it was recorded."""
    return next(body for sender, body in recorded(DESCRIBE_CONFIGS) if sender == node)


def first_batch(controllers: Controllers, directories: Mapping[int, Any], now_ms: int) -> tuple[bytes, int]:
    """Returns the beginning of a log, and how many records it has."""
    members = [{"voter_id": node} for node in controllers]
    listed = [
        {
            "voter_id": node,
            "voter_directory_id": directories[node].bytes,
            "endpoints": _endpoints("CONTROLLER", address),
        }
        for node, address in controllers.items()
    ]
    control = [
        raft_value(2, leader_id=LEADER, voters=members, granting_voters=members),
        raft_value(5, kraft_version=1),
        voters(*listed),
    ]
    registrations = [
        metadata_value(27, 0, incarnation_id=_INCARNATION, controller_id=node, end_points=_endpoints("CONTROLLER", at))
        for node, at in controllers.items()
    ]
    version = metadata_value(12, 0, name="metadata.version", feature_level=27)
    broker = metadata_value(0, 3, incarnation_id=_INCARNATION, broker_id=BROKER, broker_epoch=5)
    values = [version, *registrations, broker]
    first = batch(control, epoch=EPOCH, timestamp=now_ms)
    return first + batch(values, base_offset=len(control), epoch=EPOCH, timestamp=now_ms), len(control) + len(values)


def broker_changed(*, fenced: bool, base_offset: int, now_ms: int) -> bytes:
    """Returns the batch that fences or unfences the broker."""
    change = metadata_value(17, 1, broker_id=BROKER, broker_epoch=5, fenced=_FENCED if fenced else _UNFENCED)
    return batch([change], base_offset=base_offset, epoch=EPOCH, timestamp=now_ms)


def noop_batch(now_ms: int) -> bytes:
    """Returns a batch of one NoOpRecord at offset 0; its CRC does not cover the offset."""
    return batch([noop()], epoch=EPOCH, timestamp=now_ms)


def _endpoints(name: str, address: tuple[str, int]) -> list[dict[str, Any]]:
    host, port = address
    return [{"name": name, "host": host, "port": port, "security_protocol": 0}]


def _without_error(answer: Any) -> bool:
    return bool(answer.topics[0].partitions[0].error_code == 0)


def _filled(answer: bytes, values: Mapping[int, int]) -> bytes:
    for sentinel, value in values.items():
        answer = answer.replace(_INT64.pack(sentinel), _INT64.pack(value))
    return answer
