"""Queries clusters for some seconds: the gatherer's own code in this process, replayed and evaluated, nothing written.

Observations go to the same machine and the same rules as in the streaming job, but holds do not apply: a finding is
what is true now. A query ends when the log is read to its high watermark, DescribeQuorum is answered, every voter's
recorded endpoint is probed and no rule is unknown; or when no controller leads for as long as `no-leader` holds; or
when the time is up. Then `missing` lists what did not arrive.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from connectors.errors import ObservationError, UsageError
from connectors.gather.cluster_gatherer import ClusterGatherer
from connectors.gather.log_follower import START
from connectors.gather.node_directory import KnownEndpoints
from connectors.gather.publisher import Publisher
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.kafka.cluster_id_lookup import identify
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.request_pacing import RateLimiter
from connectors.observations.observation import Observation
from connectors.wall_clock import wall_ms
from rules.analysis.leadership import leaderless
from rules.model.identifiers import Millis
from rules.model.monitoring import Reason, probe_key
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.probe_state import FAILURE_MS
from streaming.status.cluster_status import ClusterState
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
IDENTIFY_S = 3.0
IDENTIFY_AGAIN_S = 1.0
"""Where the id is known already: an answer can only confirm it."""
_READING_TIMES = 6
"""While the log is being read, a query may take this many times its time limit."""
_CHECK_EVERY_S = 0.1
_REPEAT_EVERY_S = 1.0
_REPORT_AFTER_MS = 2_000
_UNKNOWN_RULES = "every data source answered once, but some rules are still unknown"
Say = Callable[[str], None]
"""Prints what the query waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTarget:
    """One cluster to query."""

    cluster: ClusterConnection
    settings: ClusterSettings
    read_recorded: Callable[[], ReplayedJournal | None] = lambda: None
    """Reads its recorded state, which is shown while no node answers; None: there is none."""
    known_endpoints: KnownEndpoints = field(default_factory=KnownEndpoints)
    """The endpoints that its nodes were last reported at."""


class LiveCluster:
    """One cluster's monitor while it is queried. Not for use by several threads."""

    def __init__(self, target: QueryTarget) -> None:
        self.name = target.cluster.name
        self._target = target
        # The query has asked the nodes for an id that is not configured.
        settings = replace(target.settings, cluster_id=target.cluster.cluster_id)
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
            known_endpoints=self._target.known_endpoints,
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
        unanswered = machine.log_seen_at_ms is None and machine.poll_history.newest is None
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
        if log and (quorum.log_seen_at_ms is None or quorum.log_seen_at_ms < self._since_ms):
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


def query_clusters(
    targets: Sequence[QueryTarget],
    *,
    timeout_s: float,
    say: Say = lambda _: None,
    each: Callable[[Sequence[ClusterState]], bool] = lambda _: False,
) -> Sequence[ClusterState]:
    """Queries clusters side by side; returns the last state of each target, in their order.

    Args:
        timeout_s: how long to wait for data that is missing.
        say: prints what is missing, when that takes more than two seconds.
        each: receives the state of all clusters; True requests them again, one second later.

    Raises:
        UsageError: another cluster answers than was configured.
    """
    with ThreadPoolExecutor(max_workers=min(16, len(targets))) as pool:
        identified = list(pool.map(_identified, targets))
    loop = EventLoop()
    clusters = {target.cluster.name: LiveCluster(target) for target in identified}
    publisher = Publisher(_ReplayAppender(clusters), loop, on_failure=loop.stop)
    gatherers = [clusters[target.cluster.name].gatherer(loop, publisher) for target in identified]

    async def main() -> Sequence[ClusterState]:
        for gatherer in gatherers:
            gatherer.start()
        await _wait_until_complete(loop, list(clusters.values()), timeout_s=timeout_s, say=say)
        states = [cluster.state() for cluster in clusters.values()]
        while each(states):
            await loop.sleep(_REPEAT_EVERY_S)
            states = [cluster.state() for cluster in clusters.values()]
        return states

    try:
        return loop.run(main)
    finally:
        loop.ending = True
        for gatherer in gatherers:
            gatherer.client.close()
        loop.close()


async def _wait_until_complete(loop: EventLoop, clusters: Sequence[LiveCluster], *, timeout_s: float, say: Say) -> None:
    began, reported = loop.now(), ""
    while True:
        incomplete = [cluster for cluster in clusters if not cluster.complete()]
        passed = loop.now() - began
        reading = any(cluster.reading for cluster in incomplete)
        if not incomplete or passed > timeout_s * (_READING_TIMES if reading else 1):
            return
        missing = "; ".join(f"{one.name}: {', '.join(one.missing() or (_UNKNOWN_RULES,))}" for one in incomplete)
        if passed * 1000 > _REPORT_AFTER_MS and missing != reported:
            say(f"still waiting: {missing}")
            reported = missing
        await loop.sleep(_CHECK_EVERY_S)


class _ReplayAppender:
    """The Appender that writes nothing: it applies each row as it arrives."""

    def __init__(self, clusters: Mapping[str, LiveCluster]) -> None:
        self._clusters = clusters

    def append(self, observations: list[Observation], /) -> None:
        for row in observations:
            self._clusters[row.cluster].apply(row)

    def publish(self) -> int:
        return 0


def _identified(target: QueryTarget) -> QueryTarget:
    """Returns the target with its cluster id, where a node reports it: probes are compared with it."""
    cluster = target.cluster
    try:
        found = identify(cluster, IDENTIFY_S if cluster.cluster_id is None else IDENTIFY_AGAIN_S)
        return replace(target, cluster=replace(cluster, cluster_id=found))
    except ObservationError as problem:
        if problem.reason is Reason.WRONG_CLUSTER:
            raise UsageError(
                f"cluster {cluster.name}: {problem.detail}; correct the address or the cluster_id"
            ) from None
        return target
