"""The bytes that the doubles of one cluster answer: recorded from a real quorum (`record_answers`), then patched.

Patched is what differs by cluster and time: cluster id, the controllers' endpoints, leader and epoch, offsets, times
and records. `check_recording` shows that decoding and encoding a response unpatched gives its recorded bytes.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from connectors.errors import ObservationError
from connectors.kafka.client import Address
from connectors.kafka.messages import parse_describe_quorum
from connectors.log_event import BrokerChanged, LeaderChanged, TopicCreated
from connectors.metadata.dump_log import DumpedRecord, dump_records
from connectors.metadata.record_framing import is_noop
from rules.model.identifiers import Epoch
from tests.bench import patched_batches
from tests.bench.patched_batches import header_of, led_by, placed, with_endpoints, written_at
from tests.bench.recorded_answers import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_QUORUM,
    FETCH_SNAPSHOT,
    Exchange,
    events_of,
    recording,
)
from tests.unit.connectors.metadata.metadata_bytes import uvarint

NODES: Final = (1, 2, 3)
TOPIC: Final = "__cluster_metadata"
NOT_LEADER: Final = 6
FENCED_LEADER_EPOCH: Final = 74
_SENTINEL: Final = 0x5A5A_0000_0000_0000
_HIGH_WATERMARK: Final = _SENTINEL + 1
_LOG_END: Final = _SENTINEL + 2
_NOW_MS: Final = _SENTINEL + 3
_WRITTEN_AGO_MS: Final = 1_800_000
_RECORDS: Final = b"the records stand here"
_INT64: Final = struct.Struct(">q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """One controller of a cluster."""

    node: int
    host: str
    port: int


class ClusterAnswers:
    """The answers of one cluster while one controller leads it."""

    def __init__(
        self, cluster_id: str, controllers: tuple[Controller, ...], *, leader: int, epoch: int, log_start: int
    ) -> None:
        self._cluster_id, self._controllers = cluster_id, {each.node: each for each in controllers}
        self._leader, self._epoch = leader, epoch
        self._quorum = self._describe_quorum(_quorum_of(0))
        self._quorum_places = {value: _places(self._quorum, value) for value in (_HIGH_WATERMARK, _LOG_END, _NOW_MS)}
        self.not_leading_quorum = self._describe_quorum(_quorum_of(NOT_LEADER))
        fetched = self._fetch(_fetch_of(0), records=_RECORDS, log_start=log_start)
        before, after = fetched.split(uvarint(len(_RECORDS) + 1) + _RECORDS)
        self._fetch_places = _places(before, _HIGH_WATERMARK)
        self._fetched, self._fetched_tail = before, after
        self.not_leading_fetch = self._fetch(_fetch_of(NOT_LEADER))
        self.fenced_fetch = self._fetch(_fetch_of(FENCED_LEADER_EPOCH))

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
        for place in self._fetch_places:
            _INT64.pack_into(answer, place, high_watermark)
        return bytes(answer) + uvarint(len(records) + 1) + records + self._fetched_tail

    def snapshot_named(self, *, high_watermark: int, end_offset: int, epoch: int) -> bytes:
        """Returns the leader's response to a Fetch below its log start: the snapshot to fetch."""
        named = next(one for one, result in recording().fetched if result.snapshot is not None)
        answer = bytearray(self._fetch(named, log_start=end_offset, snapshot_id=(end_offset, epoch)))
        for place in _places(answer, _HIGH_WATERMARK):
            _INT64.pack_into(answer, place, high_watermark)
        return bytes(answer)

    def describe_cluster(self) -> bytes:
        """Returns a DescribeCluster response that lists the controllers."""
        exchange = recording().of(DESCRIBE_CLUSTER)[0]
        answer = exchange.decode()
        answer.cluster_id, answer.controller_id = self._cluster_id, self._leader
        for one in answer.brokers:
            one.host, one.port = self._address(one.broker_id)
        return exchange.encode(answer)

    def _describe_quorum(self, exchange: Exchange) -> bytes:
        answer = exchange.decode()
        partition = answer.topics[0].partitions[0]
        if partition.error_code == 0:
            partition.leader_id, partition.leader_epoch = self._leader, self._epoch
            partition.high_watermark = _HIGH_WATERMARK
        for replica in (*partition.current_voters, *partition.observers):
            replica.log_end_offset = _LOG_END
            replica.last_fetch_timestamp = replica.last_caught_up_timestamp = _NOW_MS
        for node in answer.nodes or ():
            for listener in node.listeners:
                listener.host, listener.port = self._address(node.node_id)
        return exchange.encode(answer)

    def _fetch(
        self,
        exchange: Exchange,
        *,
        records: bytes | None = None,
        log_start: int | None = None,
        snapshot_id: tuple[int, int] | None = None,
    ) -> bytes:
        answer = exchange.decode()
        partition = answer.responses[0].partitions[0]
        partition.current_leader.leader_id, partition.current_leader.leader_epoch = self._leader, self._epoch
        if log_start is not None:
            if partition.last_stable_offset == partition.high_watermark:
                partition.last_stable_offset = _HIGH_WATERMARK
            partition.high_watermark, partition.log_start_offset = _HIGH_WATERMARK, log_start
        if records is not None:
            partition.records = records
        if snapshot_id is not None:
            partition.snapshot_id.end_offset, partition.snapshot_id.epoch = snapshot_id
        for endpoint in answer.node_endpoints or ():
            # A response names the leader's endpoint only.
            endpoint.node_id = self._leader
            endpoint.host, endpoint.port = self._address(self._leader)
        return exchange.encode(answer)

    def _address(self, node: int) -> tuple[str, int]:
        controller = self._controllers[node]
        return controller.host, controller.port


def check_recording() -> None:
    """Checks that the recording, unpatched, is what the lab and Kafka's own tool reported.

    Raises:
        AssertionError: it is not.
    """
    recorded = recording()
    for one in recorded.exchanges:
        assert one.api == API_VERSIONS or one.encode(one.decode()) == one.body, f"{one}: encoded differently"
    dumped = [
        (one.offset, one.type, one.data)
        for one in dump_records(recorded.log, secrets=True)
        if isinstance(one, DumpedRecord) and one.type != "NO_OP_RECORD"
    ]
    assert dumped == [(one.offset, one.type, one.data) for one in recorded.facts.log_records], "other records"
    leaders = {
        event.at.leader_epoch: event.leader_id for event in recorded.events() if isinstance(event, LeaderChanged)
    }
    for state in recorded.facts.states:
        assert leaders[Epoch(state.leader_epoch)] == state.leader_id, f"{state.step}: another leader"
        began_ms = next(one.at_ms for one in recorded.exchanges if one.step == state.step)
        polls = [_poll(one) for one in recorded.of(DESCRIBE_QUORUM) if one.at_ms >= began_ms]
        reported = (state.leader_id, state.leader_epoch, set(state.voters))
        assert reported in polls, f"{state.step}: no poll shows leader, epoch and voters as the lab reported them"


def api_versions() -> bytes:
    """Returns the body of an ApiVersions response of version 4, which has no flexible header: as it was recorded."""
    return recording().of(API_VERSIONS)[0].body


def describe_configs(node: int) -> bytes:
    """Returns a DescribeConfigs response of this controller: as it was recorded."""
    return next(one for one in recording().of(DESCRIBE_CONFIGS) if one.node == node).body


def snapshot_piece(content: bytes, position: int, most: int, *, end_offset: int, epoch: int, leader: int) -> bytes:
    """Returns a FetchSnapshot response with the bytes from `position` on."""
    exchange = recording().of(FETCH_SNAPSHOT)[0]
    answer = exchange.decode()
    partition = answer.topics[0].partitions[0]
    partition.snapshot_id.end_offset, partition.snapshot_id.epoch = end_offset, epoch
    if partition.current_leader is not None:
        partition.current_leader.leader_id, partition.current_leader.leader_epoch = leader, epoch
    partition.size, partition.position = len(content), position
    partition.unaligned_records = content[position : position + most]
    return exchange.encode(answer)


def first_leader() -> tuple[int, int]:
    """Returns who leads at the end of `first_batches`, and the epoch."""
    state = _state("idle-again")
    return state.leader_id, state.leader_epoch


def first_batches(controllers: tuple[Controller, ...], now_ms: int) -> list[bytes]:
    """Returns the recorded log up to the end of the recovery, with these endpoints instead of the lab's.

    Its newest record was written half an hour ago: the unclean election in it is over, and no snapshot is overdue.
    """
    end = _state("idle-again").high_watermark
    moved = _moved(controllers)
    batches = [(one, header_of(one)) for one in recording().batches]
    first = [(one, header) for one, header in batches if header.base_offset < end]
    later_ms = now_ms - _WRITTEN_AGO_MS - max(header.max_timestamp for _, header in first)
    return [written_at(with_endpoints(one, moved), header.base_timestamp + later_ms) for one, header in first]


def later_changes(controllers: tuple[Controller, ...]) -> list[bytes]:
    """Returns the recorded batches in which a voter is added and removed, and partitions go through RECOVERING.

    They can follow one another again and again: without NoOps, elections and the creation of the topic.
    """
    begin, end = _state("leader-restarted").high_watermark, _state("partitions-recovered").high_watermark
    moved = _moved(controllers)
    return [
        with_endpoints(one, moved)
        for one in recording().batches
        if begin <= header_of(one).base_offset < end
        and not is_noop(one, header_of(one))
        and not any(isinstance(event, LeaderChanged | TopicCreated) for event in events_of(one))
    ]


def leader_change(leader: int, *, base_offset: int, epoch: int, now_ms: int) -> bytes:
    """Returns the batch that a new leader writes first."""
    recorded = _newest_batch(lambda event: isinstance(event, LeaderChanged))
    return placed(written_at(led_by(recorded, leader), now_ms), base_offset=base_offset, epoch=epoch)


def broker_changed(*, fenced: bool, base_offset: int, epoch: int, now_ms: int) -> bytes:
    """Returns the batch that fences or unfences the first broker of the recording."""
    return placed(written_at(_broker_change(fenced=fenced), now_ms), base_offset=base_offset, epoch=epoch)


def noop_batch(now_ms: int) -> bytes:
    """Returns the recorded batch of one NoOpRecord, written now; `placed` sets its offset and epoch."""
    return written_at(next(one for one in recording().batches if is_noop(one, header_of(one))), now_ms)


@cache
def _broker_change(*, fenced: bool) -> bytes:
    broker = recording().facts.brokers[0]

    def newest(wanted: bool) -> bytes:
        found = _newest_batch(lambda one: isinstance(one, BrokerChanged) and (one.id, one.fenced) == (broker, wanted))
        # A broker that is fenced also leaves the ISRs, in the same batch.
        return patched_batches.only_broker_change(found, broker)

    # A record of the epoch at which the broker registered last.
    return newest(fenced) if not fenced else patched_batches.of_broker_epoch(newest(True), newest(False))


def _newest_batch(wanted: Callable[[Any], bool]) -> bytes:
    return next(one for one in reversed(recording().batches) if any(map(wanted, events_of(one))))


def _moved(controllers: tuple[Controller, ...]) -> dict[tuple[str, int], tuple[str, int]]:
    endpoints = recording().facts.endpoints
    return {endpoints[each.node]: (each.host, each.port) for each in controllers}


def _state(step: str) -> Any:
    return next(one for one in recording().facts.states if one.step == step)


def _poll(exchange: Exchange) -> tuple[int, int, set[tuple[int, str]]] | None:
    """Returns leader, epoch and voters as the product reads them; None from a controller that does not lead."""
    try:
        polled = parse_describe_quorum(exchange.decode(), cluster_id=None, address=Address("recorded", 1))
    except ObservationError:
        return None
    voters = {(int(voter.key.id), str(voter.key.directory_id)) for voter in polled.voters}
    return polled.leader_id, polled.leader_epoch, voters


@cache
def _quorum_of(error: int) -> Exchange:
    return next(
        one
        for one in recording().of(DESCRIBE_QUORUM)
        if one.step == "idle" and one.decode().topics[0].partitions[0].error_code == error
    )


@cache
def _fetch_of(error: int) -> Exchange:
    return next(
        one
        for one, result in recording().fetched
        if result.error == error and result.leader is not None and (error or result.records)
    )


def _places(content: bytes | bytearray, sentinel: int) -> list[int]:
    wanted, found, at = _INT64.pack(sentinel), [], -1
    while (at := content.find(wanted, at + 1)) >= 0:
        found.append(at)
    return found
