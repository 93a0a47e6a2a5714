"""A farm: one process that answers, over the wire, as many small clusters of three controllers.

`python -m tests.farm.farm CLUSTERS [LIE...]` prints its port and ends when stdin closes. Cluster i = 256 X + Y has its
controllers at 127.101.X.Y, 127.102.X.Y and 127.103.X.Y, all behind one listening socket. The last clusters lie, one for
each name of `lies`; `flood-of-NAME` is a log without end of such records (`tests.hostile.record_floods`). Lines on
stdin: `fence I` and `unfence I`. An idle Kafka controller writes a NoOpRecord every 500 ms; followers fetch it within
milliseconds, and a waiting Fetch is answered for the record and again for the high watermark.
"""

import asyncio
import resource
import struct
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from connectors.metadata.batch_writer import with_position
from tests.farm import farm_answers
from tests.farm.farm_answers import EPOCH, LEADER, NODES, ClusterAnswers
from tests.farm.farm_process import cluster_id
from tests.farm.lies import INSTEAD, Lie
from tests.hostile.record_floods import FLOOD_BYTES, flood_batch

FLOOD: Final = "flood-of-"
"""How the lie begins that is a flood of records; its name follows."""
_FIRST_NET: Final = 100
_GROUPS: Final = 100
"""The clusters write their NoOps in this many groups, spread over half a second."""
_NOOP_S, _COMMIT_S = 0.5, 0.004
_HEADER: Final = struct.Struct(">hhih")
_FETCH: Final = struct.Struct(">iiibiib16sbiiqiqi")
_HIGH_WATERMARK_TAG: Final = b"\x01\x01\x08"
_LENGTH: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">q")
_API_VERSIONS_BODY: Final = farm_answers.recorded(farm_answers.API_VERSIONS)[0][1]
Send = Callable[[int, bytes], None]
"""Sends the body of a response to the request with this correlation id."""


def address(cluster: int, node: int) -> str:
    """Returns the address of a controller."""
    return f"127.{_FIRST_NET + node}.{cluster >> 8}.{cluster & 255}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A Fetch that found nothing new."""

    offset: int
    high_watermark: int
    correlation_id: int
    send: Send


class FarmCluster:
    """The controllers of one cluster: its log, and the Fetch requests that wait."""

    def __init__(self, number: int, port: int, now_ms: int, lie: Lie | None = None) -> None:
        self.lie = lie
        controllers = {node: (address(number, node), port) for node in NODES}
        self.answers = ClusterAnswers(cluster_id(number), controllers)
        first, records = farm_answers.first_batch(controllers, self.answers.directories(), now_ms)
        self._log = bytearray(first)
        self._positions = array("Q", [0] * records)
        """Position of the batch that holds each offset; both first batches are read at once."""
        self._high_watermark = records
        self._waiting: list[Waiting] = []

    def append(self, content: bytes) -> None:
        """Appends a batch of one record, and answers the waiting fetches."""
        self._positions.append(len(self._log))
        self._log += _OFFSET.pack(len(self._positions) - 1) + content[8:]
        self._answer_waiting()

    def commit(self) -> None:
        """Moves the high watermark to the end of the log: the followers have fetched it."""
        self._high_watermark = len(self._positions)
        self._answer_waiting()

    def fence(self, fenced: bool, now_ms: int) -> None:
        """Fences or unfences the broker: one record."""
        self.append(farm_answers.broker_changed(fenced=fenced, base_offset=len(self._positions), now_ms=now_ms))

    def fetch(self, node: int, request: memoryview, correlation_id: int, send: Send) -> None:
        """Answers a Fetch of version 18, now or when there is something new."""
        values = _FETCH.unpack_from(request)
        wait_ms, epoch, offset = values[0], values[10], values[11]
        # The order of KafkaRaftClient.validateLeaderOnlyRequest: first the epoch.
        if epoch != EPOCH:
            send(correlation_id, self.answers.fenced_fetch)
            return
        if node != LEADER:
            send(correlation_id, self.answers.not_leading_fetch)
            return
        tags = bytes(request[_FETCH.size : _FETCH.size + 11])
        known = int.from_bytes(tags[3:], "big") if tags.startswith(_HIGH_WATERMARK_TAG) else -1
        waiting = Waiting(offset=offset, high_watermark=known, correlation_id=correlation_id, send=send)
        if wait_ms and self._has_nothing_for(waiting):
            self._waiting.append(waiting)
        else:
            self._answer(waiting)

    def _has_nothing_for(self, one: Waiting) -> bool:
        return one.offset >= len(self._positions) and one.high_watermark >= self._high_watermark

    def describe_quorum(self, node: int, now_ms: int) -> bytes:
        """Returns the answer of one controller."""
        if node != LEADER:
            return self.answers.not_leading_quorum
        return self.answers.describe_quorum(high_watermark=self._high_watermark, log_end=self._end, now_ms=now_ms)

    @property
    def _end(self) -> int:
        return len(self._positions)

    def forget(self, send: Send) -> None:
        """Forgets the fetches of a connection that was closed."""
        self._waiting = [one for one in self._waiting if one.send != send]

    def _answer_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if one.offset < len(self._positions) or one.high_watermark < self._high_watermark:
                self._answer(one)
            else:
                self._waiting.append(one)

    def _answer(self, one: Waiting) -> None:
        records = bytes(self._log[self._positions[one.offset] :]) if one.offset < len(self._positions) else b""
        one.send(one.correlation_id, self.answers.fetch(high_watermark=self._high_watermark, records=records))


class FloodedCluster(FarmCluster):
    """A cluster whose log never ends: each Fetch after its beginning is answered with many records at once."""

    def __init__(self, number: int, port: int, now_ms: int, flood: str) -> None:
        super().__init__(number, port, now_ms)
        self._content, self._count = flood_batch(flood, FLOOD_BYTES)

    def append(self, content: bytes) -> None:
        """Appends nothing: the log is long enough."""

    def commit(self) -> None:
        """Does nothing: what was fetched is committed."""

    def _has_nothing_for(self, one: Waiting) -> bool:
        return False

    @property
    def _end(self) -> int:
        return self._high_watermark

    def _answer(self, one: Waiting) -> None:
        if one.offset < len(self._positions):
            super()._answer(one)
            return
        self._high_watermark = max(self._high_watermark, one.offset + self._count)
        records = with_position(self._content, base_offset=one.offset, leader_epoch=EPOCH)
        one.send(one.correlation_id, self.answers.fetch(high_watermark=self._high_watermark, records=records))


class Connection(asyncio.Protocol):
    """One accepted connection: whole requests are answered in order, so those after a Fetch that waits wait too."""

    def __init__(self, clusters: Sequence[FarmCluster]) -> None:
        self._clusters = clusters
        self._received = b""
        self._fetches = False
        """Whether a Fetch waits."""
        self._lies: set[asyncio.Task[None]] = set()
        self._lying, self._writable = asyncio.Lock(), asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Finds the controller that is asked."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        _, net, high, low = map(int, transport.get_extra_info("sockname")[0].split("."))
        self._cluster, self._node = self._clusters[256 * high + low], net - _FIRST_NET

    def data_received(self, data: bytes) -> None:
        """Answers the requests that have arrived as a whole."""
        self._received += data
        self._answer_received()

    def _answer_received(self) -> None:
        received, at = self._received, 0
        while not self._fetches and len(received) - at >= _LENGTH.size:
            end = at + _LENGTH.size + _LENGTH.unpack_from(received, at)[0]
            if len(received) < end:
                break
            self._received, request, at = received[end:], memoryview(received)[at + _LENGTH.size : end], end
            self._answer(request)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the fetches that wait."""
        self._cluster.forget(self.send_fetched)
        for lie in self._lies:
            lie.cancel()

    def pause_writing(self) -> None:
        """The client reads no more than a buffer: a lie waits."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Continues a lie."""
        self._writable.set()

    async def _lie(self, pieces: Iterator[bytes | float]) -> None:
        async with self._lying:
            for piece in pieces:
                if isinstance(piece, float):
                    await asyncio.sleep(piece)
                else:
                    self._transport.write(piece)
                    # Other clusters are answered between two pieces.
                    await asyncio.sleep(0)
                    await self._writable.wait()

    def send(self, correlation_id: int, body: bytes) -> None:
        """Sends a response with a flexible header."""
        self._transport.write(struct.pack(">iib", len(body) + 5, correlation_id, 0) + body)

    def send_fetched(self, correlation_id: int, body: bytes) -> None:
        """Sends the response to a Fetch, and goes on with the requests after it."""
        self.send(correlation_id, body)
        self._fetches = False
        if self._received:
            asyncio.get_running_loop().call_soon(self._answer_received)

    def _answer(self, request: memoryview) -> None:
        key, _, correlation_id, client = _HEADER.unpack_from(request)
        body = request[_HEADER.size + max(client, 0) + 1 :]
        lie = self._cluster.lie
        match key:
            case farm_answers.FETCH | farm_answers.DESCRIBE_QUORUM if lie is not None:
                task = asyncio.get_running_loop().create_task(self._lie(lie(key, correlation_id)))
                self._lies.add(task)
                task.add_done_callback(self._lies.discard)
            case farm_answers.FETCH:
                self._fetches = True
                self._cluster.fetch(self._node, body, correlation_id, self.send_fetched)
            case farm_answers.DESCRIBE_QUORUM:
                self.send(correlation_id, self._cluster.describe_quorum(self._node, _now_ms()))
            case farm_answers.API_VERSIONS:
                # Its response has no flexible header.
                self._transport.write(struct.pack(">ii", len(_API_VERSIONS_BODY) + 4, correlation_id))
                self._transport.write(_API_VERSIONS_BODY)
            case farm_answers.DESCRIBE_CLUSTER:
                self.send(correlation_id, self._cluster.answers.describe_cluster)
            case farm_answers.DESCRIBE_CONFIGS:
                self.send(correlation_id, farm_answers.describe_configs(self._node))
            case _:
                self._transport.close()


def _write_noops(loop: asyncio.AbstractEventLoop, clusters: Sequence[FarmCluster]) -> None:
    """Writes the NoOps of a group of clusters, and again every half second."""
    content = farm_answers.noop_batch(_now_ms())
    for cluster in clusters:
        cluster.append(content)
        loop.call_later(_COMMIT_S, cluster.commit)
    loop.call_later(_NOOP_S, _write_noops, loop, clusters)


async def run(count: int, *lies: str) -> None:
    """Runs the farm until stdin closes. `lies`: of the last clusters, in their order."""
    loop, clusters = asyncio.get_running_loop(), list[FarmCluster]()
    server = await loop.create_server(lambda: Connection(clusters), "0.0.0.0", 0, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    for number, name in enumerate([*[""] * (count - len(lies)), *lies]):
        if name.startswith(FLOOD):
            clusters.append(FloodedCluster(number, port, _now_ms(), name.removeprefix(FLOOD)))
        else:
            clusters.append(FarmCluster(number, port, _now_ms(), INSTEAD[name] if name else None))
    for group in range(min(_GROUPS, count)):
        loop.call_later(group * _NOOP_S / _GROUPS, _write_noops, loop, clusters[group::_GROUPS])
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    async for line in commands:
        change, changed = line.split()
        cluster = clusters[int(changed)]
        cluster.fence(change == b"fence", _now_ms())
        loop.call_later(_COMMIT_S, cluster.commit)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(run(int(sys.argv[1]), *sys.argv[2:]))
