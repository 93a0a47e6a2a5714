"""SimulatedWorld: all that the expected alerts are derived from. It holds no monitor, no replay and no rule.

The facts are those of the simulated nodes, their network, the gatherer's own reads, and two references: `committed`,
the state after all committed records, and `observed`, the state after the records that the gatherer has delivered.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rules.model.identifiers import ReplicaKey
from tests.simulation.brokers import SimulatedBroker
from tests.simulation.controller import SimulatedController
from tests.simulation.gatherer import MONITOR_ID, SimulatedGatherer
from tests.simulation.ground_truth import GroundTruth
from tests.simulation.network import Network
from tests.simulation.observed_log import ObservedLog
from tests.simulation.oracle import Oracle

NO_LEADER_CLEARS_MS = 15_000
"""`no-leader` inhibits the other rules until its alert has resolved: its clear time, and delayed observations."""


class LogRegressionSeen(NamedTuple):
    """A voter's log ended below committed records that it had fetched after."""

    at_ms: int
    acknowledged: int


@dataclass(slots=True)
class SimulatedWorld:
    """Times are the simulation's clock, unless they are called the log's."""

    nodes: Sequence[SimulatedController]
    network: Network
    gatherer: SimulatedGatherer
    ground_truth: GroundTruth
    brokers: Sequence[SimulatedBroker]
    now_ms: int = 0
    observed: ObservedLog = field(default_factory=ObservedLog)
    fetched_ms: dict[ReplicaKey, int] = field(default_factory=dict)
    """When each replica last fetched from a polled leader."""
    hw_moved_ms: int | None = None
    """When a poll last reported a higher high watermark than all before."""
    hw_polled: int = 0
    committed_moved_ms: int = 0
    committed_count: int = 0
    acknowledged: dict[ReplicaKey, int] = field(default_factory=dict)
    """Below this offset a voter had all records, and they were committed."""
    regressed: dict[ReplicaKey, LogRegressionSeen] = field(default_factory=dict)
    lost_ms: list[int] = field(default_factory=list)
    """When the gatherer found committed records missing."""
    disagrees_since_ms: dict[int, int] = field(default_factory=dict)
    """Since when a controller has followed another leader than the polled one, or none."""
    ends_before: dict[ReplicaKey, int] = field(default_factory=dict)

    @property
    def committed(self) -> Oracle:
        """The state after all committed records."""
        return self.ground_truth.oracle

    @property
    def leader(self) -> SimulatedController | None:
        """The controller that answers polls as the leader."""
        return self.gatherer.polled_leader

    @property
    def reached(self) -> list[SimulatedController]:
        """The controllers to which the network lets the gatherer."""
        return [node for node in self.nodes if self.network.open(MONITOR_ID, node.id)]

    @property
    def observable(self) -> bool:
        """Whether the gatherer polls the real leader, a majority fetches from it, and the log is read."""
        leader = self.leader
        if leader is None or leader.high_watermark <= leader.epoch_start or not self.gatherer.served_log:
            return False
        newest = leader.epoch == max(node.epoch for node in self.nodes)
        return newest and self.observed.oracle.end >= len(self.ground_truth.committed) - 5

    @property
    def reportable(self) -> bool:
        """Whether what the gatherer can observe of the quorum must be reported."""
        return self.observable and self.settled_leader is not None

    @property
    def settled_leader(self) -> SimulatedController | None:
        """The polled leader, if a leader has answered for longer than `no-leader` takes to resolve."""
        since_ms = self.gatherer.led_since_ms
        if since_ms is None or self.now_ms - since_ms < NO_LEADER_CLEARS_MS:
            return None
        return self.leader

    def observe(self, now_ms: int) -> None:
        """Follows what the gatherer delivered in this second."""
        self.now_ms = now_ms
        gatherer = self.gatherer
        if gatherer.lost > self.observed.lost:
            self.lost_ms.append(now_ms)
            # The log is read from its beginning.
            self.observed = ObservedLog(removed=self.observed.removed, lost=gatherer.lost)
            self.acknowledged.clear()
            self.hw_polled = 0
        self.observed.follow(now_ms, self.ground_truth.committed, gatherer.read)
        if len(self.ground_truth.committed) != self.committed_count:
            self.committed_count, self.committed_moved_ms = len(self.ground_truth.committed), now_ms
        if self.leader is not None:
            self._follow_leader(self.leader)
        self._follow_views()

    def suspended(self, ms: int) -> None:
        """Moves the times with which ages are measured: nothing happened while everything was suspended."""
        self.fetched_ms = {key: at + ms for key, at in self.fetched_ms.items()}
        self.disagrees_since_ms = {node: at + ms for node, at in self.disagrees_since_ms.items()}
        self.committed_moved_ms += ms
        self.hw_moved_ms = None if self.hw_moved_ms is None else self.hw_moved_ms + ms

    def fetch_age_ms(self, key: ReplicaKey) -> int | None:
        """Returns how long ago this replica last fetched from a polled leader; None if never."""
        at = self.fetched_ms.get(key)
        return None if at is None else self.now_ms - at

    def _follow_leader(self, leader: SimulatedController) -> None:
        self.fetched_ms[leader.key] = self.now_ms
        for key, progress in leader.progress.items():
            at = min(self.now_ms, progress.fetched_at_ms - leader.skew_ms)
            self.fetched_ms[key] = max(at, self.fetched_ms.get(key, 0))
        known = leader.high_watermark > leader.epoch_start
        if known and leader.high_watermark > self.hw_polled:
            self.hw_polled, self.hw_moved_ms = leader.high_watermark, self.now_ms
        if known:
            self._follow_ends(leader)

    def _follow_ends(self, leader: SimulatedController) -> None:
        """An offset counts as acknowledged if two polls after each other show it."""
        ends = {key: leader.progress[key].end_offset for key in leader.log.keys if key in leader.progress}
        ends[leader.key] = len(leader.log)
        for key, end in ends.items():
            had = self.acknowledged.get(key, 0)
            if end < had:
                if key not in self.regressed or self.regressed[key].acknowledged != had:
                    self.regressed[key] = LogRegressionSeen(self.now_ms, had)
                continue
            both = min(end, self.ends_before.get(key, 0), leader.high_watermark)
            self.acknowledged[key] = max(had, both)
        self.ends_before = ends

    def _follow_views(self) -> None:
        leader = self.leader
        disagree = {
            node.id
            for node in self.nodes
            if leader is not None
            and node.up
            and not node.leads
            and (node.epoch != leader.epoch or node.leader is None or node.id in self.gatherer.faults.foreign)
        }
        known = self.disagrees_since_ms
        self.disagrees_since_ms = {node: known.get(node, self.now_ms) for node in disagree}
