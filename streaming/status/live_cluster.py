"""One cluster while it is queried: the rows of its gatherer are replayed and evaluated as they arrive."""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from connectors.gather.cluster_gatherer import ClusterGatherer
from connectors.gather.log_follower import START
from connectors.gather.node_directory import KnownEndpoints
from connectors.gather.publisher import Publisher
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.request_pacing import RateLimiter
from connectors.observations.observation import Observation
from connectors.wall_clock import wall_ms
from rules.analysis.leadership import leaderless
from rules.model.identifiers import Millis
from rules.model.monitoring import probe_key
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.probe_state import FAILURE_MS
from streaming.status.cluster_status import ClusterState
from streaming.status.query_target import QueryTarget
from streaming.status.recording import ReplayedJournal

_LEADERLESS_MS = 5_000
"""An election takes one or two seconds: the default hold of `no-leader`."""
_DECIDE_MS = 6_000
"""How long a query goes on for a rule that is unknown although every data source answered once: a probe that was not
answered is repeated within this time."""
_MOVES_MS = 2_000
"""A log position that has not moved for this long means that the log is not being read."""
_ROWS_KEPT = 1_000
"""Rows that are kept while no node answers: some minutes of failed observations."""


class LiveCluster:
    """One cluster's monitor while it is queried. Not for use by several threads."""

    def __init__(self, target: QueryTarget) -> None:
        self.name = target.cluster.name
        self._target = target
        # The query has asked the nodes for an id that is not configured.
        settings = replace(target.settings(), cluster_id=target.cluster.cluster_id)
        self._monitor = ClusterMonitor(settings, evaluates_from_ms=None)
        self._recorded: ReplayedJournal | None = None
        """The recorded state, once no node has answered, with the rows of the query."""
        self._unanswered: deque[Observation] | None = deque(maxlen=_ROWS_KEPT)
        """Rows from before any node answered, until the recorded state is read."""
        self._since_ms = Millis(wall_ms())
        self._complete_at_ms: Millis | None = None
        self._read_at_ms = self._since_ms
        self._position = self._monitor.machine.log.position

    def gatherer(self, loop: EventLoop, publisher: Publisher) -> ClusterGatherer:
        """Returns the gatherer of this cluster."""
        return ClusterGatherer(
            self._target.cluster,
            loop=loop,
            publisher=publisher,
            rate_limiter=RateLimiter(),
            start=START,
            last_observed_ms=None,
            known_endpoints=self._target.known_endpoints or KnownEndpoints(),
        )

    def apply(self, row: Observation) -> None:
        """Applies one row as it arrives."""
        _apply_next(self._monitor, row)
        if self._recorded is not None:
            _apply_next(self._recorded.monitor, row)
        elif self._unanswered is not None:
            self._unanswered.append(row)
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
            if leaderless(quorum) is None:
                return False
            # Failures of all nodes at the same time may be a reconnection; the oldest failure gives the duration.
            first_ms = min(failure.first_at_ms for failure in quorum.failures)
            return quorum.now_ms - max(first_ms, self._since_ms) >= _LEADERLESS_MS
        if self._complete_at_ms is None:
            self._complete_at_ms = quorum.now_ms
        return not self._monitor.evaluation().unknown or quorum.now_ms - self._complete_at_ms >= _DECIDE_MS

    def missing(self) -> tuple[str, ...]:
        """Data that was requested and has not arrived, as text."""
        return tuple(self._missing())

    def state(self) -> ClusterState:
        """Returns what is known now; the recorded state while no node has answered."""
        machine = self._monitor.machine
        unanswered = machine.log_fetched_at_ms is None and machine.poll_history.newest is None
        if unanswered:
            self._use_recorded()
        shown = self._recorded.monitor if unanswered and self._recorded is not None else self._monitor
        return ClusterState(
            quorum=shown.machine.quorum(),
            evaluation=shown.evaluation(),
            thresholds=shown.settings.thresholds,
            taken_at_ms=Millis(wall_ms()),
            queried_since_ms=self._since_ms,
            recorded_at_ms=self._recorded.newest_ms if self._recorded else None,
            missing=self.missing(),
        )

    def _use_recorded(self) -> None:
        """Reads the recorded state, once, and applies the rows since the query began to it."""
        rows, self._unanswered = self._unanswered, None
        self._recorded = self._recorded if rows is None else self._target.read_recorded()
        if self._recorded is None or rows is None:
            return
        if self._since_ms - self._recorded.newest_ms > FAILURE_MS:
            # The job does not run: nothing was observed until the query, whose rows have no mark of that gap.
            self._recorded.machine.probe_state.watched_since_ms = self._since_ms
        for row in rows:
            _apply_next(self._recorded.monitor, row)

    def _missing(self) -> Iterable[str]:
        machine, log = self._monitor.machine, self._target.cluster.log
        quorum = machine.quorum()
        if log and (quorum.log_fetched_at_ms is None or quorum.log_fetched_at_ms < self._since_ms):
            yield "the metadata log was not answered"
        elif log and (machine.behind or quorum.last_offset is None):
            yield f"the metadata log is read up to offset {machine.log.position} of {quorum.high_watermark}"
        if quorum.poll is None or quorum.poll.observed_at_ms < self._since_ms:
            yield "DescribeQuorum was not answered"
        for voter in quorum.committed.voters if quorum.committed and log else ():
            probe = quorum.probes.get(probe_key(voter.key.id, voter.endpoints[0])) if voter.endpoints else None
            if voter.endpoints and (probe is None or probe.observed_at_ms < self._since_ms):
                yield f"voter {voter.key.id}'s endpoint {voter.endpoints[0]} was not probed"


def _apply_next(monitor: ClusterMonitor, row: Observation) -> None:
    """Applies a row that no journal has numbered."""
    monitor.apply((replace(row, sequence=monitor.machine.sequence + 1),))
