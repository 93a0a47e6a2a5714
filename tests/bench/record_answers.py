"""Records what the controllers of a real quorum answer, for the farm (`fleet_farm`) and its tests.

`python -m tests.bench.record_answers [--to FILE]` starts a lab of three controllers and two brokers, restarts its
leader, adds and removes a voter, leaves partitions RECOVERING by an unclean election and ends their recovery, fills the
log until there is a snapshot, and writes every response to the requests that the gatherer sends. Three minutes.
"""

import argparse
import json
import re
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from connectors.errors import ObservationError
from connectors.kafka.cluster_id_lookup import describe_cluster_request
from connectors.kafka.kafka_python import ApiVersionsRequest
from connectors.kafka.messages import (
    describe_quorum_request,
    fetch_request,
    fetch_snapshot_request,
    parse_fetch,
    parse_fetch_snapshot,
)
from connectors.kafka.node_id_request import describe_node_request
from connectors.metadata.batches import RecordBatch, scan
from deploy.lab import topics
from deploy.lab.lab import Lab
from deploy.lab.node import Node
from deploy.lab.unclean_partitions import UncleanPartitions
from deploy.lab.wait_until import wait_until
from rules.model.identifiers import SnapshotId
from tests.bench.recorded_answers import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_QUORUM,
    FETCH,
    FETCH_SNAPSHOT,
    RECORDING,
    VERSIONS,
    DumpedByKafka,
    Exchange,
    LabFacts,
    ReportedState,
    write,
)
from tests.kafka.lab_helpers import start_new_controller

_ROUND_S: Final = 0.25
_POLL_S: Final = 1.0
_TIMEOUT_S: Final = 5.0
_LOG_TIMEOUT_S: Final = 60.0
_IDLE_S: Final = 4.0
_SNAPSHOT_TIMEOUT_S: Final = 60.0
_MOST_BYTES: Final = 1 << 20
_PIECE_BYTES: Final = 8_192
"""Of a snapshot: several pieces."""
_SNAPSHOT_AFTER: Final = {"metadata.log.max.record.bytes.between.snapshots": "20000"}
_TOPIC: Final = "recovering"
_DUMPED: Final = re.compile(
    r"\| offset: (\d+) CreateTime: .* headerKeys: \[\] +"
    r"(?:payload: (?P<payload>\{.*\})|(?P<name>\w+):? (?P<data>\{.*\}))"
)
"""A record in the output of Kafka's dump tool."""


class AnswerRecorder:
    """Follows the log and polls each controller, on a thread of its own. A context manager."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.step = "started"
        self.exchanges: list[Exchange] = []
        self.log_end = 0
        self.problem: BaseException | None = None
        self._epoch, self._last_epoch, self._high_watermark = 0, 0, -1
        self._leader = lab.controllers[0]
        self._polled_at = -_POLL_S
        self._connections: dict[int, socket.socket] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="answer recorder", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for connection in self._connections.values():
            connection.close()

    def ask(self, node: Node, api: int, request: Any, *, offset: int = -1) -> Exchange:
        """Sends one request and records the response.

        Raises:
            OSError: there was none in time.
        """
        with self._lock:
            return self._ask(node, api, request, offset)

    def fetch(self, node: Node, *, offset: int, epoch: int, last_epoch: int = 0) -> Exchange:
        """Sends a Fetch as the gatherer does, and records the response."""
        request = fetch_request(
            cluster_id=self._lab.cluster_id,
            leader_epoch=epoch,
            offset=offset,
            last_epoch=last_epoch,
            high_watermark=self._high_watermark,
            max_wait_ms=int(_ROUND_S * 1_000),
            max_bytes=_MOST_BYTES,
        )
        return self.ask(node, FETCH, request, offset=offset)

    def await_log_end(self, offset: int) -> None:
        """Waits until the log is recorded up to this offset."""
        wait_until(
            lambda: self.problem is not None or self.log_end >= offset,
            timeout_s=_LOG_TIMEOUT_S,
            what=f"the log up to offset {offset}",
        )
        if self.problem is not None:
            raise self.problem

    def _ask(self, node: Node, api: int, request: Any, offset: int) -> Exchange:
        assert node.controller_port is not None
        connection = self._connections.get(node.id)
        if connection is None:
            connection = socket.create_connection(("127.0.0.1", node.controller_port), _TIMEOUT_S)
            self._connections[node.id] = connection
        request.API_VERSION = VERSIONS[api]
        request.with_header(correlation_id=1, client_id="kraftwatch")
        try:
            connection.sendall(request.encode(header=True, framed=True))
            with connection.makefile("rb") as response:
                (length,) = struct.unpack(">i", _whole(response.read(4), 4))
                answer = _whole(response.read(length), length)
        except (OSError, struct.error):
            self._connections.pop(node.id).close()
            raise
        exchange = Exchange(
            step=self.step, at_ms=time.time_ns() // 1_000_000, node=node.id, api=api, offset=offset, answer=answer
        )
        self.exchanges.append(exchange)
        return exchange

    def _follow(self) -> None:
        try:
            while not self._ended.wait(_ROUND_S / 5):
                if time.monotonic() - self._polled_at >= _POLL_S:
                    self._polled_at = time.monotonic()
                    for node in self._running():
                        with suppress(OSError):
                            self.ask(node, DESCRIBE_QUORUM, describe_quorum_request())
                self._fetch_on()
        except Exception as problem:
            self.problem = problem
            raise

    def _running(self) -> list[Node]:
        return [node for node in self._lab.layout.controllers if node.running]

    def _fetch_on(self) -> None:
        running = {node.id: node for node in self._running()}
        node = running.get(self._leader) or next(iter(running.values()))
        try:
            exchange = self.fetch(node, offset=self.log_end, epoch=self._epoch, last_epoch=self._last_epoch)
            result = parse_fetch(exchange.decode())
        except (OSError, ObservationError):
            # It was stopped, or is stopping and answers BROKER_NOT_AVAILABLE: another controller knows the next leader.
            ids = sorted(running)
            self._leader = ids[(ids.index(node.id) + 1) % len(ids)]
            return
        if result.error or result.snapshot is not None:
            assert result.snapshot is None, "the log has a snapshot before it was recorded: record again"
            if result.leader_id is not None and result.leader_id in running:
                self._leader = result.leader_id
            self._epoch = max(self._epoch, result.leader_epoch or 0)
            return
        if result.diverging is not None:
            # The former leader wrote a record that was not committed.
            self.log_end, self._last_epoch = result.diverging.end_offset, result.diverging.epoch
            return
        self._high_watermark = -1 if result.high_watermark is None else result.high_watermark
        for batch in scan(result.records):
            assert isinstance(batch, RecordBatch)
            self.log_end, self._last_epoch = batch.last_offset + 1, batch.leader_epoch


def record(lab: Lab) -> tuple[LabFacts, list[Exchange]]:
    """Runs the scenario and returns what the lab reported, and every exchange."""
    states: list[ReportedState] = []
    unclean: list[UncleanPartitions] = []
    steps: dict[str, Callable[[], None]] = {
        "idle": lambda: time.sleep(_IDLE_S),
        "leader-restarted": lambda: _restart_leader(lab),
        "voter-added": lambda: lab.add_controller(start_new_controller(lab)),
        "voter-removed": lambda: _remove_newest_voter(lab),
        "partitions-recovering": lambda: unclean.append(lab.leave_partitions_recovering(_TOPIC, partitions=2)),
        "partitions-recovered": lambda: _end_recovery(lab, unclean[0].killed_broker),
        "idle-again": lambda: time.sleep(_IDLE_S),
    }
    with AnswerRecorder(lab) as recorder:
        for node in lab.layout.controllers:
            versions = ApiVersionsRequest(client_software_name="kraftwatch", client_software_version="1")
            recorder.ask(node, API_VERSIONS, versions)
            recorder.ask(node, DESCRIBE_CLUSTER, describe_cluster_request(controllers=True))
            recorder.ask(node, DESCRIBE_CONFIGS, describe_node_request(node.id))
        for step, act in steps.items():
            sys.stderr.write(f"{step}\n")
            recorder.step = step
            act()
            states.append(_reported(lab, step))
            recorder.await_log_end(states[-1].high_watermark)
            _record_refusals(lab, recorder, states[-1])
        recorder.step = "snapshot"
        leader = _fill_until_snapshot(lab)
        states.append(_reported(lab, recorder.step))
        recorder.await_log_end(states[-1].high_watermark)
        _record_snapshot(lab, recorder, leader, states[-1].leader_epoch)
    endpoints = {node.id: (node.host, node.controller_port or 0) for node in lab.layout.controllers}
    facts = LabFacts(
        kafka=lab.version,
        cluster_id=lab.cluster_id,
        endpoints=endpoints,
        brokers=tuple(lab.brokers),
        log_records=_dumped(lab, leader.id, recorder.log_end),
        states=tuple(states),
    )
    return facts, recorder.exchanges


def _restart_leader(lab: Lab) -> None:
    former = lab.await_state(lambda _: True, what="a leader").leader_id
    lab.stop(former)
    lab.await_state(lambda state: state.leader_id != former, what="another leader")
    lab.start(former)
    lab.await_state(
        lambda state: all(one.caught_up for one in state.voters if one.id == former),
        what="the former leader, caught up",
    )


def _remove_newest_voter(lab: Lab) -> None:
    newest = lab.controllers[-1]
    lab.remove_controller(newest)
    lab.stop(newest)


def _end_recovery(lab: Lab, killed: int) -> None:
    lab.start(killed)
    port = lab.node(killed).broker_port
    assert port is not None
    topics.wait_for_isr(port, _TOPIC, frozenset(lab.brokers), timeout_s=120, connect=lab.connect)


def _reported(lab: Lab, step: str) -> ReportedState:
    state = lab.await_state(lambda _: True, what="a leader")
    return ReportedState(
        step=step,
        leader_id=state.leader_id,
        leader_epoch=state.leader_epoch,
        high_watermark=state.high_watermark,
        voters=tuple((one.id, one.directory_id) for one in state.voters),
    )


def _record_refusals(lab: Lab, recorder: AnswerRecorder, state: ReportedState) -> None:
    """Records what a follower answers, and what the leader answers to an old and to an unknown epoch."""
    leader = lab.node(state.leader_id)
    follower = next(node for node in lab.layout.controllers if node.running and node.id != state.leader_id)
    epoch = state.leader_epoch
    for node, asked in ((follower, epoch), (leader, epoch - 1), (leader, epoch + 1)):
        recorder.fetch(node, offset=state.high_watermark, epoch=asked)


def _fill_until_snapshot(lab: Lab) -> Node:
    def leader_with_snapshot() -> Node | None:
        leader = lab.node(lab.await_state(lambda _: True, what="a leader").leader_id)
        names = [path.name for path in leader.metadata_log.glob("*.checkpoint")]
        return leader if any(not name.startswith("0" * 20) for name in names) else None

    for number in range(4):
        if leader_with_snapshot() is None:
            lab.create_topic(f"filling-{number}", partitions=60)
    return wait_until(leader_with_snapshot, timeout_s=_SNAPSHOT_TIMEOUT_S, what="a snapshot of the leader")


def _record_snapshot(lab: Lab, recorder: AnswerRecorder, leader: Node, epoch: int) -> None:
    named = parse_fetch(recorder.fetch(leader, offset=0, epoch=epoch).decode()).snapshot
    assert named is not None, "the leader names its snapshot to a Fetch of offset 0"
    position, size = 0, 1
    while position < size:
        request = fetch_snapshot_request(
            cluster_id=lab.cluster_id,
            leader_epoch=epoch,
            snapshot=SnapshotId(end_offset=named.end_offset, epoch=named.epoch),
            position=position,
            max_bytes=_PIECE_BYTES,
        )
        piece = parse_fetch_snapshot(recorder.ask(leader, FETCH_SNAPSHOT, request, offset=position).decode())
        assert piece.records, "the leader sends bytes up to the end"
        position, size = position + len(piece.records), piece.size


def _dumped(lab: Lab, leader: int, log_end: int) -> tuple[DumpedByKafka, ...]:
    """Returns the records of the log up to its recorded end, without NoOps, as Kafka's dump tool prints them."""
    records: list[DumpedByKafka] = []
    in_log = False
    for line in lab.dump_log(leader).splitlines():
        if line.startswith("Dumping"):
            in_log = line.endswith(".log")
        elif in_log and (found := _DUMPED.fullmatch(line)):
            payload = json.loads(found["payload"]) if found["payload"] else {}
            type_ = str(payload.get("type", found["name"]))
            data = payload.get("data") or json.loads(found["data"] or "{}")
            if int(found[1]) < log_end and type_ != "NO_OP_RECORD":
                records.append(DumpedByKafka(offset=int(found[1]), type=type_, data=data))
    return tuple(records)


def _whole(content: bytes, size: int) -> bytes:
    if len(content) < size:
        raise ConnectionError("the connection closed before the complete response")
    return content


def main(arguments: Sequence[str] | None = None) -> int:
    """Records and prints the size of the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--to", type=Path, default=RECORDING)
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="kraftwatch-recording-") as folder,
        Lab(Path(folder) / "lab", controllers=3, brokers=2, properties=_SNAPSHOT_AFTER) as lab,
    ):
        facts, exchanges = record(lab)
    size = write(options.to, facts, exchanges)
    sys.stdout.write(f"{options.to}: {len(exchanges)} responses, {len(facts.log_records)} records, {size:,} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
