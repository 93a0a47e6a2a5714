"""A farm: one process that answers, over the wire, as many small clusters of three controllers.

`python -m tests.bench.farm CLUSTERS` prints its port and ends when stdin closes. Cluster i = 256 X + Y has its
controllers at 127.101.X.Y, 127.102.X.Y and 127.103.X.Y, all behind one listening socket. Lines on stdin: `fence I` and
`unfence I`. An idle Kafka controller writes a NoOpRecord every 500 ms; followers fetch it within milliseconds, and a
waiting Fetch is answered for the record and again for the high watermark.
"""

import heapq
import os
import resource
import select
import socket
import struct
import sys
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.bench import farm_answers
from tests.bench.farm_answers import EPOCH, LEADER, NODES, ClusterAnswers

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

    def __init__(self, number: int, port: int, now_ms: int) -> None:
        controllers = {node: (address(number, node), port) for node in NODES}
        self.answers = ClusterAnswers(f"farm-cluster-{number:09d}", controllers)
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
        if wait_ms and offset >= len(self._positions) and known >= self._high_watermark:
            self._waiting.append(waiting)
        else:
            self._answer(waiting)

    def describe_quorum(self, node: int, now_ms: int) -> bytes:
        """Returns the answer of one controller."""
        if node != LEADER:
            return self.answers.not_leading_quorum
        log_end = len(self._positions)
        return self.answers.describe_quorum(high_watermark=self._high_watermark, log_end=log_end, now_ms=now_ms)

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


class Connection:
    """One accepted connection: whole requests are answered in order, except a Fetch that waits."""

    def __init__(self, clusters: list[FarmCluster], sock: socket.socket) -> None:
        parts = [int(part) for part in sock.getsockname()[0].split(".")]
        self._sock, self._cluster = sock, clusters[256 * parts[2] + parts[3]]
        self._node = parts[1] - _FIRST_NET
        self._received = b""

    def readable(self) -> bool:
        """Reads what arrived and answers it; returns False once the other side has closed."""
        try:
            piece = self._sock.recv(65536)
        except BlockingIOError:
            return True
        except OSError:
            return False
        received, at = self._received + piece, 0
        while len(received) - at >= _LENGTH.size:
            end = at + _LENGTH.size + _LENGTH.unpack_from(received, at)[0]
            if len(received) < end:
                break
            self._answer(memoryview(received)[at + _LENGTH.size : end])
            at = end
        self._received = received[at:]
        return bool(piece)

    def close(self) -> None:
        """Closes the socket."""
        self._cluster.forget(self.send)
        self._sock.close()

    def send(self, correlation_id: int, body: bytes) -> None:
        """Sends a response with a flexible header."""
        self._write(struct.pack(">iib", len(body) + 5, correlation_id, 0) + body)

    def _write(self, content: bytes) -> None:
        try:
            self._sock.sendall(content)
        except OSError:
            return

    def _answer(self, request: memoryview) -> None:
        key, _, correlation_id, client = _HEADER.unpack_from(request)
        body = request[_HEADER.size + max(client, 0) + 1 :]
        match key:
            case farm_answers.FETCH:
                self._cluster.fetch(self._node, body, correlation_id, self.send)
            case farm_answers.DESCRIBE_QUORUM:
                self.send(correlation_id, self._cluster.describe_quorum(self._node, _now_ms()))
            case farm_answers.API_VERSIONS:
                # Its response has no flexible header.
                self._write(struct.pack(">ii", len(_API_VERSIONS_BODY) + 4, correlation_id) + _API_VERSIONS_BODY)
            case farm_answers.DESCRIBE_CLUSTER:
                self.send(correlation_id, self._cluster.answers.describe_cluster)
            case farm_answers.DESCRIBE_CONFIGS:
                self.send(correlation_id, farm_answers.describe_configs(self._node))
            case _:
                self._sock.shutdown(socket.SHUT_RDWR)


class Farm:
    """The clusters, their connections and timers on one epoll loop."""

    def __init__(self, clusters: int) -> None:
        self._server = socket.create_server(("0.0.0.0", 0), backlog=4096)
        self._server.setblocking(False)
        self.port: int = self._server.getsockname()[1]
        self._clusters = [FarmCluster(number, self.port, _now_ms()) for number in range(clusters)]
        self._connections: dict[int, Connection] = {}
        self._poll = select.epoll()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timer = 0

    def run(self) -> None:
        """Answers until stdin closes."""
        self._poll.register(self._server.fileno(), select.EPOLLIN)
        self._poll.register(sys.stdin.fileno(), select.EPOLLIN)
        for group in range(min(_GROUPS, len(self._clusters))):
            self._in(group * _NOOP_S / _GROUPS, self._noops(self._clusters[group::_GROUPS]))
        while True:
            while self._timers[0][0] <= time.monotonic():
                heapq.heappop(self._timers)[2]()
            for descriptor, _ in self._poll.poll(max(0.0, self._timers[0][0] - time.monotonic())):
                if descriptor == self._server.fileno():
                    self._accept()
                elif descriptor in self._connections:
                    if not self._connections[descriptor].readable():
                        self._poll.unregister(descriptor)
                        self._connections.pop(descriptor).close()
                elif not (commands := os.read(descriptor, 65536)):
                    return
                else:
                    for line in commands.decode().splitlines():
                        change, number = line.split()
                        cluster = self._clusters[int(number)]
                        cluster.fence(change == "fence", _now_ms())
                        self._in(_COMMIT_S, cluster.commit)

    def _accept(self) -> None:
        for _ in range(256):
            try:
                sock, _peer = self._server.accept()
            except OSError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections[sock.fileno()] = Connection(self._clusters, sock)
            self._poll.register(sock.fileno(), select.EPOLLIN)

    def _in(self, seconds: float, work: Callable[[], None]) -> None:
        self._timer += 1
        heapq.heappush(self._timers, (time.monotonic() + seconds, self._timer, work))

    def _noops(self, clusters: list[FarmCluster]) -> Callable[[], None]:
        def commit() -> None:
            for cluster in clusters:
                cluster.commit()

        def append() -> None:
            content = farm_answers.noop_batch(_now_ms())
            for cluster in clusters:
                cluster.append(content)
            self._in(_COMMIT_S, commit)
            self._in(_NOOP_S, append)

        return append


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def main() -> None:
    """Runs the farm until stdin closes."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    farm = Farm(int(sys.argv[1]))
    print(farm.port, flush=True)
    farm.run()


if __name__ == "__main__":
    main()
