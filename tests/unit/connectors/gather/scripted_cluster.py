"""A cluster without sockets: controllers that answer by scripts, and what the gatherer's tasks write of them."""

from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeQuorumRequest,
)
from kafka.protocol.consumer import FetchRequest

from connectors.errors import ObservationError
from connectors.gather.commit_buffer import CommittedRecords
from connectors.gather.observation_writer import RedactedBatches
from connectors.kafka.cluster_connection import Address
from connectors.kafka.event_loop import EventLoop
from rules.model.identifiers import SnapshotId
from rules.model.monitoring import FailedObservation, LeaderView, ObservationSource, Probe, Reason
from rules.model.replica import Poll

C1, C2, C3 = (Address(f"c{number}", 9093) for number in (1, 2, 3))
Script = Callable[[Any], Any]
"""Returns the response to a request; None if it is never answered."""


@dataclass
class ScriptedClient:
    """Replaces the Client: each address answers a request with its script."""

    loop: EventLoop
    scripts: dict[Address, Script]
    source: ObservationSource = ObservationSource.LOG
    """The one whose requests are expected."""
    version: int = 18
    """Of Fetch."""
    answer_s: float = 0.002
    delay_s: dict[Address, float] = field(default_factory=dict)
    """Further seconds until the answer of an address."""
    timeout_ms: int = 100
    sent: list[tuple[Address, Any]] = field(default_factory=list)
    """Every request but those for the cluster's id."""
    quorums: dict[Address, Script] = field(default_factory=dict)
    """Answers to DescribeQuorum with which a Fetch of the log is checked; all others deny it."""
    identified: list[Address] = field(default_factory=list)
    """The addresses that were asked for their cluster id."""
    nodes: dict[Address, int] = field(default_factory=dict)
    """The nodes that answer DescribeConfigs at these addresses; all others deny it."""
    disconnected: list[Address] = field(default_factory=list)
    pending: Counter[Address] = field(default_factory=Counter)
    most_pending: int = 0
    """How many requests were pending at one address at once."""

    def ask_another(self, source: ObservationSource, address: Address) -> None:
        """Nothing: each address is that of one node."""

    async def send(
        self, address: Address, request: Any, *, source: ObservationSource, timeout_ms: int | None = None
    ) -> Any:
        assert source is self.source
        if isinstance(request, DescribeClusterRequest):
            self.identified.append(address)
            return DescribeClusterResponse(error_code=0, endpoint_type=2, cluster_id="answered", brokers=[])
        if isinstance(request, DescribeQuorumRequest) and source is not ObservationSource.QUORUM:
            if address not in self.quorums:
                raise ObservationError(Reason.DENIED, "DescribeQuorum needs DESCRIBE on CLUSTER")
            return self.quorums[address](request)
        if isinstance(request, DescribeConfigsRequest):
            if address not in self.nodes:
                raise ObservationError(Reason.DENIED, "DescribeConfigs needs DESCRIBE_CONFIGS on CLUSTER")
            asked = f"Unexpected broker id, expected {self.nodes[address]} or empty string, but received 0"
            answer = DescribeConfigsResponse.DescribeConfigsResult(error_code=42, error_message=asked)
            return DescribeConfigsResponse(results=[answer])
        assert getattr(request, "replica_id", -1) == -1
        self.sent.append((address, request))
        request.API_VERSION = self.version if isinstance(request, FetchRequest) else 1
        self.pending[address] += 1
        self.most_pending = max(self.most_pending, self.pending[address])
        try:
            await self.loop.sleep(self.answer_s)
            answer = self.scripts[address](request)
            await self.loop.sleep(60 if answer is None else self.delay_s.get(address, 0.0))
            return answer
        finally:
            self.pending[address] -= 1

    def disconnect(self, source: ObservationSource, address: Address) -> None:
        assert source is self.source
        self.disconnected.append(address)

    @property
    def queried(self) -> list[Address]:
        return [address for address, _ in self.sent]

    @property
    def positions(self) -> list[tuple[Address, int, int, int]]:
        """Address, current leader epoch, offset and last fetched epoch of each Fetch."""
        fetches = [(at, one.topics[0].partitions[0]) for at, one in self.sent if isinstance(one, FetchRequest)]
        return [(at, one.current_leader_epoch, one.fetch_offset, one.last_fetched_epoch) for at, one in fetches]


def fails_with(reason: Reason) -> Script:
    def script(_: Any) -> Any:
        raise ObservationError(reason, "detail")

    return script


class RecordedOutput:
    """Replaces the ObservationWriter: records what is written."""

    def __init__(self) -> None:
        self.log = b""
        self.rows: list[bytes] = []
        """The records of each row of the log that has some."""
        self.empty_rows = 0
        """Rows of the log without records."""
        self.pieces: list[tuple[SnapshotId, int, bytes]] = []
        self.polls: list[Poll] = []
        self.views: list[LeaderView] = []
        self.probes: list[Probe] = []
        self.failures: list[FailedObservation] = []

    def write_records(self, records: CommittedRecords, batches: RedactedBatches) -> None:
        self.log += records.batches
        self.rows += [records.batches] if records.batches else []
        self.empty_rows += not records.batches

    def write_snapshot_pieces(self, snapshot: SnapshotId, first: int, batches: RedactedBatches) -> None:
        self.pieces += ((snapshot, number, piece.content) for number, piece in enumerate(batches.pieces, first))

    def write_poll(self, event: Poll) -> None:
        self.polls.append(event)

    def write_leader_view(self, event: LeaderView) -> None:
        self.views.append(event)

    def write_probe(self, event: Probe) -> None:
        self.probes.append(event)

    def write_failure(self, event: FailedObservation) -> None:
        self.failures.append(event)

    def reasons(self, address: Address) -> set[Reason]:
        return {event.reason for event in self.failures if event.endpoint == str(address)}


def run_until(
    loop: EventLoop, task: Coroutine[Any, Any, None], condition: Callable[[], bool], *, within_s: float = 8
) -> None:
    """Runs a task of the gatherer, which never ends, until a condition is true or this time has passed."""

    async def main() -> None:
        running = loop.spawn(task)
        deadline = loop.now() + within_s
        while not condition() and loop.now() < deadline:
            assert not running.done(), running.exception()
            await loop.sleep(0.005)

    loop.run(main)
