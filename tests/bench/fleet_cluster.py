"""One cluster of the farm: its log, its leader, the Fetch requests that wait, and the fault that was asked for."""

import random
import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tests.bench import fleet_answers
from tests.bench.fleet_answers import NODES, ClusterAnswers, Controller
from tests.bench.patched_batches import placed, written_at

Send = Callable[[int, bytes], None]
"""Sends the body of a response to the request with this correlation id."""
_FETCH: Final = struct.Struct(">iiibiib16sbiiqiqi")
_HIGH_WATERMARK_TAG: Final = b"\x01\x01\x08"
_FETCH_SNAPSHOT: Final = struct.Struct(">qiq")
_GARBAGE: Final = random.Random(7).randbytes(512)


class Fault(StrEnum):
    """What a cluster can be asked to do."""

    HANG = "hang"
    """Accepts connections and never answers again."""
    FLAP = "flap"
    """Another controller is elected every five seconds."""
    LIE = "lie"
    """Answers Fetch and DescribeQuorum with random bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A Fetch that found nothing new."""

    offset: int
    high_watermark: int
    correlation_id: int
    send: Send


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSnapshot:
    """A `.checkpoint` at which the log starts."""

    content: bytes = field(repr=False)
    end_offset: int
    epoch: int


class FarmCluster:
    """The three controllers of one cluster."""

    def __init__(
        self, number: int, controllers: tuple[Controller, ...], *, snapshot: MetadataSnapshot | None, now_ms: int
    ) -> None:
        self.cluster_id = f"farm-cluster-{number:09d}"
        self.fault: Fault | None = None
        self._controllers = controllers
        self._snapshot = snapshot
        self._start = 0 if snapshot is None else snapshot.end_offset
        self._leader, epoch = fleet_answers.first_leader()
        self._epoch = epoch if snapshot is None else snapshot.epoch
        self._log = bytearray()
        self._positions = array("Q")
        """Position of the batch that holds each offset, counted from the log start."""
        self._waiting: list[Waiting] = []
        self._changes: list[bytes] = []
        """Voter changes and recoveries that the next leaders write, one each."""
        self._high_watermark = self._start
        self._answers = self._answers_of_leader()
        if snapshot is None:
            for content in fleet_answers.first_batches(controllers, now_ms):
                self._append(content)
            self.commit()

    @property
    def log_end(self) -> int:
        """The offset of the next record."""
        return self._start + len(self._positions)

    def append_noop(self, content: bytes) -> None:
        """Appends a NoOpRecord, as an idle controller does every 500 ms, and answers the waiting fetches."""
        self._append(placed(content, base_offset=self.log_end, epoch=self._epoch))
        self._answer_waiting()

    def commit(self) -> None:
        """Moves the high watermark to the end of the log: the followers have fetched it."""
        self._high_watermark = self.log_end
        self._answer_waiting()

    def elect(self, now_ms: int) -> None:
        """Makes the next controller the leader of the next epoch, which writes one of the recorded changes."""
        self._epoch += 1
        self._leader = NODES[self._epoch % len(NODES)]
        self._answers = self._answers_of_leader()
        for one in self._take_waiting(lambda _: True):
            one.send(one.correlation_id, self._answers.not_leading_fetch)
        self._append(
            fleet_answers.leader_change(self._leader, base_offset=self.log_end, epoch=self._epoch, now_ms=now_ms)
        )
        if self._snapshot is None:
            self._changes = self._changes or fleet_answers.later_changes(self._controllers)
            change = written_at(self._changes.pop(0), now_ms)
            self._append(placed(change, base_offset=self.log_end, epoch=self._epoch))

    def fence(self, fenced: bool, now_ms: int) -> None:
        """Fences or unfences the broker: one record."""
        assert self._snapshot is None, "the cluster has no broker"
        change = fleet_answers.broker_changed(
            fenced=fenced,
            base_offset=self.log_end,
            epoch=self._epoch,
            now_ms=now_ms,
        )
        self._append(change)
        self._answer_waiting()

    def fetch(self, node: int, request: memoryview, correlation_id: int, send: Send) -> None:
        """Answers a Fetch of version 18, now or when there is something new."""
        if self.fault is Fault.LIE:
            send(correlation_id, _GARBAGE)
            return
        values = _FETCH.unpack_from(request)
        wait_ms, epoch, offset, most = values[0], values[10], values[11], values[14]
        # The order of KafkaRaftClient.validateLeaderOnlyRequest: first the epoch.
        if epoch != self._epoch:
            send(correlation_id, self._answers.fenced_fetch)
            return
        if node != self._leader:
            send(correlation_id, self._answers.not_leading_fetch)
            return
        if offset < self._start:
            assert self._snapshot is not None
            named = self._answers.snapshot_named(
                high_watermark=self._high_watermark, end_offset=self._snapshot.end_offset, epoch=self._snapshot.epoch
            )
            send(correlation_id, named)
            return
        tags = bytes(request[_FETCH.size : _FETCH.size + 11])
        known = int.from_bytes(tags[3:], "big") if tags.startswith(_HIGH_WATERMARK_TAG) else -1
        if wait_ms and offset >= self.log_end and known >= self._high_watermark:
            self._waiting.append(Waiting(offset=offset, high_watermark=known, correlation_id=correlation_id, send=send))
            return
        send(correlation_id, self._answers.fetch(high_watermark=self._high_watermark, records=self._read(offset, most)))

    def fetch_snapshot(self, request: memoryview, correlation_id: int, send: Send) -> None:
        """Answers a FetchSnapshot with the bytes that it asks for."""
        assert self._snapshot is not None, "only a log that starts at a snapshot names one"
        most = int.from_bytes(request[4:8], "big")
        # replica id, max bytes, one topic with its name, one partition: index, leader epoch, snapshot id, position
        at = 8 + 1 + 1 + len(fleet_answers.TOPIC) + 1 + 8
        _, epoch = struct.unpack_from(">qi", request, at)
        (position,) = struct.unpack_from(">q", request, at + 12 + 1)
        answer = fleet_answers.snapshot_piece(
            self._snapshot.content,
            position,
            most,
            end_offset=self._snapshot.end_offset,
            epoch=epoch,
            leader=self._leader,
        )
        send(correlation_id, answer)

    def describe_quorum(self, node: int, now_ms: int) -> bytes:
        """Returns the answer of one controller."""
        if self.fault is Fault.LIE:
            return _GARBAGE
        if node != self._leader:
            return self._answers.not_leading_quorum
        return self._answers.describe_quorum(high_watermark=self._high_watermark, log_end=self.log_end, now_ms=now_ms)

    def describe_cluster(self) -> bytes:
        """Returns the answer of any controller."""
        return self._answers.describe_cluster()

    def forget(self, send: Send) -> None:
        """Forgets the fetches of a connection that was closed."""
        self._waiting = [one for one in self._waiting if one.send != send]

    def _append(self, content: bytes) -> None:
        (last_delta,) = struct.unpack_from(">i", content, 23)
        self._positions.extend([len(self._log)] * (last_delta + 1))
        self._log += content

    def _read(self, offset: int, most: int) -> bytes:
        index = offset - self._start
        if index >= len(self._positions):
            return b""
        begin = self._positions[index]
        (size,) = struct.unpack_from(">i", self._log, begin + 8)
        return bytes(self._log[begin : begin + max(most, 12 + size)])

    def _answer_waiting(self) -> None:
        if not self._waiting:
            return
        log_end, high_watermark = self.log_end, self._high_watermark
        for one in self._take_waiting(lambda each: each.offset < log_end or each.high_watermark < high_watermark):
            records = self._read(one.offset, 1 << 20)
            one.send(one.correlation_id, self._answers.fetch(high_watermark=high_watermark, records=records))

    def _take_waiting(self, wanted: Callable[[Waiting], bool]) -> list[Waiting]:
        taken = [one for one in self._waiting if wanted(one)]
        self._waiting = [one for one in self._waiting if one not in taken] if len(taken) < len(self._waiting) else []
        return taken

    def _answers_of_leader(self) -> ClusterAnswers:
        return ClusterAnswers(
            self.cluster_id, self._controllers, leader=self._leader, epoch=self._epoch, log_start=self._start
        )
