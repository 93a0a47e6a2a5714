"""A farm: one process that answers, over the wire, as many small clusters of three controllers.

`python -m tests.bench.fleet_farm --clusters N [--port P] [--snapshot CLUSTER=FILE]` prints a JSON line with its port
and ends when stdin closes. Cluster number i has its controllers at 127.101.X.Y, 127.102.X.Y and 127.103.X.Y with
i = 256 X + Y, all behind one listening socket. Lines on stdin: `hang I`, `flap I`, `lie I`, `restore I`; `fence I` and
`unfence I`, which change a broker of cluster I; and `stats`, which prints one JSON line with its CPU seconds and the
number of requests by API.

The answers are recorded from a real quorum (`fleet_answers`), with its elections, voter changes and a recovery in the
log; a cluster that flaps goes on with these changes. An idle Kafka controller writes a NoOpRecord every 500 ms;
followers fetch it within milliseconds, and a waiting Fetch is answered for the record and again for the high watermark.
"""

import argparse
import heapq
import json
import lzma
import os
import resource
import select
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from connectors.metadata.batches import RecordBatch, scan
from tests.bench import fleet_answers
from tests.bench.fleet_answers import NODES, Controller
from tests.bench.fleet_cluster import FarmCluster, Fault, MetadataSnapshot

_FIRST_NET: Final = 100
_GROUPS: Final = 100
"""The clusters write their NoOps in this many groups, spread over half a second."""
_NOOP_S: Final = 0.5
_COMMIT_S: Final = 0.004
_ELECTION_S: Final = 5.0
_FETCH, _API_VERSIONS, _DESCRIBE_CONFIGS, _DESCRIBE_QUORUM, _FETCH_SNAPSHOT, _DESCRIBE_CLUSTER = 1, 18, 32, 55, 59, 60
_HEADER: Final = struct.Struct(">hhih")
_API_VERSIONS_BODY: Final = fleet_answers.api_versions()


def address(cluster: int, node: int) -> str:
    """Returns the address of a controller."""
    return f"127.{_FIRST_NET + node}.{cluster >> 8}.{cluster & 255}"


class Connection:
    """One accepted connection: whole requests are answered in order, except a Fetch that waits."""

    def __init__(self, farm: "Farm", sock: socket.socket) -> None:
        host, port = sock.getsockname()
        parts = [int(part) for part in host.split(".")]
        self._farm, self._sock = farm, sock
        self._cluster = farm.cluster(256 * parts[2] + parts[3])
        self._node = parts[1] - _FIRST_NET
        self._received = b""
        self.port = port

    def readable(self) -> bool:
        """Reads what arrived and answers it; returns False once the other side has closed."""
        try:
            piece = self._sock.recv(65536)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not piece:
            return False
        received = self._received + piece if self._received else piece
        at = 0
        while len(received) - at >= 4:
            end = at + 4 + int.from_bytes(received[at : at + 4], "big")
            if len(received) < end:
                break
            self._answer(memoryview(received)[at + 4 : end])
            at = end
        self._received = received[at:]
        return True

    def close(self) -> None:
        """Closes the socket."""
        self._cluster.forget(self.send)
        self._sock.close()

    def send(self, correlation_id: int, body: bytes) -> None:
        """Sends a response with a flexible header."""
        self._write(struct.pack(">iib", len(body) + 5, correlation_id, 0) + body)

    def _write(self, data: bytes) -> None:
        try:
            sent = self._sock.send(data)
            if sent < len(data):
                # A piece of a large snapshot: the reader is the gatherer, which reads on.
                self._sock.setblocking(True)
                self._sock.sendall(data[sent:])
                self._sock.setblocking(False)
        except OSError:
            return

    def _answer(self, request: memoryview) -> None:
        key, version, correlation_id, client = _HEADER.unpack_from(request)
        self._farm.requests[key] += 1
        cluster = self._cluster
        if cluster.fault is Fault.HANG:
            return
        body = request[_HEADER.size + max(client, 0) + 1 :]
        if key == _FETCH:
            cluster.fetch(self._node, body, correlation_id, self.send)
        elif key == _DESCRIBE_QUORUM:
            self.send(correlation_id, cluster.describe_quorum(self._node, time.time_ns() // 1_000_000))
        elif key == _API_VERSIONS:
            assert version == 4, "kafka-python sends version 4 first"
            answer = _API_VERSIONS_BODY
            self._write(struct.pack(">ii", len(answer) + 4, correlation_id) + answer)
        elif key == _DESCRIBE_CLUSTER:
            self.send(correlation_id, cluster.describe_cluster())
        elif key == _DESCRIBE_CONFIGS:
            self.send(correlation_id, fleet_answers.describe_configs(self._node))
        elif key == _FETCH_SNAPSHOT:
            cluster.fetch_snapshot(body, correlation_id, self.send)
        else:
            self._sock.shutdown(socket.SHUT_RDWR)


class Farm:
    """The clusters, their connections and timers on one epoll loop."""

    def __init__(self, clusters: int, *, port: int, snapshots: dict[int, MetadataSnapshot]) -> None:
        self.requests: Counter[int] = Counter()
        self._server = socket.create_server(("0.0.0.0", port), backlog=4096)
        self._server.setblocking(False)
        self.port: int = self._server.getsockname()[1]
        now_ms = time.time_ns() // 1_000_000
        self._clusters = [
            FarmCluster(
                number,
                tuple(Controller(node=node, host=address(number, node), port=self.port) for node in NODES),
                snapshot=snapshots.get(number),
                now_ms=now_ms,
            )
            for number in range(clusters)
        ]
        self._connections: dict[int, Connection] = {}
        self._poll = select.epoll()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timer = 0

    def cluster(self, number: int) -> FarmCluster:
        """Returns the cluster with this number."""
        return self._clusters[number]

    def run(self) -> None:
        """Answers until stdin closes."""
        self._poll.register(self._server.fileno(), select.EPOLLIN)
        self._poll.register(sys.stdin.fileno(), select.EPOLLIN)
        for group in range(min(_GROUPS, len(self._clusters))):
            self._at(time.monotonic() + group * _NOOP_S / _GROUPS, self._noops(self._clusters[group::_GROUPS]))
        while True:
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                heapq.heappop(self._timers)[2]()
            wait_s = max(0.0, self._timers[0][0] - time.monotonic())
            for descriptor, _ in self._poll.poll(wait_s):
                connection = self._connections.get(descriptor)
                if connection is not None:
                    if not connection.readable():
                        self._close(descriptor, connection)
                elif descriptor == self._server.fileno():
                    self._accept()
                elif not (commands := os.read(descriptor, 65536)):
                    return
                else:
                    for line in commands.decode().splitlines():
                        self._command(line.split())

    def _accept(self) -> None:
        for _ in range(256):
            try:
                sock, _peer = self._server.accept()
            except OSError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections[sock.fileno()] = Connection(self, sock)
            self._poll.register(sock.fileno(), select.EPOLLIN)

    def _close(self, descriptor: int, connection: Connection) -> None:
        self._poll.unregister(descriptor)
        del self._connections[descriptor]
        connection.close()

    def _at(self, when: float, work: Callable[[], None]) -> None:
        self._timer += 1
        heapq.heappush(self._timers, (when, self._timer, work))

    def _noops(self, clusters: list[FarmCluster]) -> Callable[[], None]:
        def commit() -> None:
            for cluster in clusters:
                cluster.commit()

        def append() -> None:
            content = fleet_answers.noop_batch(time.time_ns() // 1_000_000)
            for cluster in clusters:
                cluster.append_noop(content)
            now = time.monotonic()
            self._at(now + _COMMIT_S, commit)
            self._at(now + _NOOP_S, append)

        return append

    def _elections(self, cluster: FarmCluster) -> Callable[[], None]:
        def elect() -> None:
            if cluster.fault is Fault.FLAP:
                cluster.elect(time.time_ns() // 1_000_000)
                self._at(time.monotonic() + _ELECTION_S, elect)

        return elect

    def _command(self, words: list[str]) -> None:
        match words:
            case ["stats"]:
                used = resource.getrusage(resource.RUSAGE_SELF)
                stats = {"cpu_s": used.ru_utime + used.ru_stime, "requests": dict(self.requests), "pid": os.getpid()}
                sys.stdout.write(json.dumps(stats) + "\n")
                sys.stdout.flush()
            case ["fence" | "unfence" as change, number]:
                cluster = self._clusters[int(number)]
                cluster.fence(change == "fence", time.time_ns() // 1_000_000)
                self._at(time.monotonic() + _COMMIT_S, cluster.commit)
            case ["restore", number]:
                self._clusters[int(number)].fault = None
            case [fault, number]:
                cluster = self._clusters[int(number)]
                cluster.fault = Fault(fault)
                if cluster.fault is Fault.FLAP:
                    self._elections(cluster)()
            case _:
                raise ValueError(f"unknown command {' '.join(words)!r}")


def _snapshot(path: Path) -> MetadataSnapshot:
    content = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
    batches = [one for one in scan(content) if isinstance(one, RecordBatch)]
    # The name of a `.checkpoint` holds both numbers; a snapshot's batches count from 0.
    return MetadataSnapshot(content=content, end_offset=batches[-1].last_offset + 1, epoch=1)


def main() -> None:
    """Runs the farm until stdin closes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--clusters", type=int, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--snapshot", action="append", default=[], metavar="CLUSTER=FILE")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    snapshots = {int(one.split("=")[0]): _snapshot(Path(one.split("=", 1)[1])) for one in options.snapshot}
    fleet_answers.check_recording()
    farm = Farm(options.clusters, port=options.port, snapshots=snapshots)
    sys.stdout.write(json.dumps({"port": farm.port}) + "\n")
    sys.stdout.flush()
    farm.run()


if __name__ == "__main__":
    main()
