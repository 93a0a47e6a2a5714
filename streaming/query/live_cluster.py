"""One cluster while it is queried: the rows of its gatherer are replayed and evaluated as they arrive.

The query continues the state that a job has recorded, if there is one, as a job that is restarted continues it: so the
same observations give the same answer as in the job.
"""

from dataclasses import replace

from connectors.gather.cluster_gatherer import ClusterGatherer
from connectors.gather.commit_buffer import FetchPosition
from connectors.gather.log_follower import START
from connectors.gather.node_directory import KnownEndpoints
from connectors.gather.publisher import Publisher
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.request_pacing import RateLimiter
from connectors.observations.observation import Observation
from connectors.process.wall_clock import wall_ms
from rules.model.identifiers import Millis
from streaming.query.query_target import QueryTarget
from streaming.query.recording import ReplayedJournal, missing_since
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.probe_state import FAILURE_MS
from streaming.status.cluster_status import ClusterState

_LEADERLESS_MS = 5_000
"""An election takes one or two seconds: the default hold of `no-leader`."""
_DECIDE_MS = 6_000
"""How long a query goes on for a rule that is unknown although every data source answered once: a probe that was not
answered is repeated within this time."""
_MOVES_MS = 2_000
"""A log position that has not moved for this long means that the log is not being read."""


class LiveCluster:
    """One cluster's monitor while it is queried. Not for use by several threads."""

    def __init__(self, target: QueryTarget, recorded: ReplayedJournal | None = None) -> None:
        """`recorded`: the state that a job has recorded of the cluster, with which the query begins."""
        self.name = target.cluster.name
        self._target = target
        # The query has asked the nodes for an id that is not configured.
        settings = replace(target.settings(), cluster_id=target.cluster.cluster_id)
        self._monitor = ClusterMonitor(settings, evaluates_from_ms=None) if recorded is None else recorded.monitor
        self._known_endpoints = KnownEndpoints() if recorded is None else recorded.known_endpoints
        self._recorded_at_ms = None if recorded is None else recorded.newest_ms
        # The clock of the job's host may be ahead.
        self._since_ms = Millis(max(wall_ms(), self._monitor.machine.now_ms + 1))
        if recorded is not None and self._since_ms - recorded.newest_ms > FAILURE_MS:
            # The job does not run: nothing was observed until the query, whose rows have no mark of that gap.
            self._monitor.machine.begin_again(self._since_ms)
        self._complete_at_ms: Millis | None = None
        self._read_at_ms = self._since_ms
        self._position = self._monitor.machine.log.position

    def gatherer(self, loop: EventLoop, publisher: Publisher) -> ClusterGatherer:
        """Returns the gatherer of this cluster, which continues where the recorded state ends."""
        log = self._monitor.machine.log
        continues = log.image.complete and log.position >= 0
        return ClusterGatherer(
            self._target.cluster,
            loop=loop,
            publisher=publisher,
            rate_limiter=RateLimiter(),
            start=FetchPosition(offset=log.position + 1, epoch=log.epoch) if continues else START,
            reads_again=not continues and log.position >= 0,
            not_before_ms=self._since_ms,
            known_endpoints=self._known_endpoints,
        )

    def apply(self, row: Observation) -> None:
        """Applies one row as it arrives."""
        machine = self._monitor.machine
        # No journal has numbered it.
        self._monitor.apply((replace(row, sequence=machine.sequence + 1),))
        machine = self._monitor.machine
        if machine.log.position != self._position or machine.loading is not None:
            self._position, self._read_at_ms = machine.log.position, Millis(row.observed_at_ms)

    @property
    def reading(self) -> bool:
        """Whether the log position is below the high watermark and moves."""
        machine = self._monitor.machine
        return machine.behind and machine.now_ms - self._read_at_ms < _MOVES_MS

    def complete(self) -> bool:
        """Whether no more data is expected."""
        quorum = self._monitor.machine.quorum()
        if self.missing():
            self._complete_at_ms = None
            if self._monitor.facts.leaderless is None:
                return False
            # Failures of all nodes at the same time may be a reconnection; the oldest failure gives the duration.
            first_ms = min((failure.first_at_ms for failure in quorum.failures), default=self._since_ms)
            return quorum.now_ms - max(first_ms, self._since_ms) >= _LEADERLESS_MS
        if self._complete_at_ms is None:
            self._complete_at_ms = quorum.now_ms
        return not self._monitor.evaluation().unknown or quorum.now_ms - self._complete_at_ms >= _DECIDE_MS

    def missing(self) -> tuple[str, ...]:
        """Data that was requested and has not arrived, as text."""
        return tuple(missing_since(self._monitor.machine, self._since_ms, log=self._target.cluster.log))

    def state(self) -> ClusterState:
        """Returns what is known now: where no node has answered, what was recorded and why none answers."""
        return ClusterState(
            facts=self._monitor.facts,
            evaluation=self._monitor.evaluation(),
            thresholds=self._monitor.settings.thresholds,
            taken_at_ms=Millis(wall_ms()),
            queried_since_ms=self._since_ms,
            recorded_at_ms=self._recorded_at_ms,
            missing=self.missing(),
        )
