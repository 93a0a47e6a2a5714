"""Gathers one cluster: log follower, quorum poll, endpoint probe and leader view poll, each supervised separately."""

import logging
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from connectors.errors import KraftwatchError
from connectors.gather.commit_buffer import FetchPosition
from connectors.gather.endpoint_probe import EndpointProbe
from connectors.gather.leader_view_poll import LeaderViewPoll
from connectors.gather.log_follower import LogFollower
from connectors.gather.node_directory import KnownEndpoints, NodeDirectory
from connectors.gather.observation_writer import ObservationWriter
from connectors.gather.publisher import Publisher
from connectors.gather.quorum_poll import QuorumPoll
from connectors.kafka.client import Client
from connectors.kafka.cluster_connection import Address, ClusterConnection
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.request_pacing import RateLimiter
from connectors.process.wall_clock import RowClock, wall_ms
from rules.model.monitoring import FailedObservation, ObservationSource, Reason

_LOG = logging.getLogger(__name__)
_RESTART_AFTER_S = 5.0


class ClusterGatherer:
    """The four tasks of one cluster on one event loop. `start` starts them; closing the client ends them."""

    def __init__(
        self,
        cluster: ClusterConnection,
        *,
        loop: EventLoop,
        publisher: Publisher,
        rate_limiter: RateLimiter,
        start: FetchPosition,
        last_observed_ms: int | None = None,
        not_before_ms: int = 0,
        known_endpoints: KnownEndpoints,
        reads_again: bool = False,
        one_of_many: bool = False,
    ) -> None:
        """Connects to nothing yet.

        Args:
            last_observed_ms: the time of the newest recorded row, after which nothing was observed; None: no gap is
                written.
            not_before_ms: the time of the rows is not before it.
            reads_again: the log was recorded before, by a build that knew other records or not whole; it is read from
                `start` again.
            one_of_many: the job has many clusters.
        """
        self._cluster = cluster
        self._loop = loop
        self.client = Client(loop, cluster, rate_limiter)
        configured = tuple(Address(host, port) for host, port in cluster.bootstrap)
        self.nodes = NodeDirectory(
            configured=configured, cluster_id=cluster.cluster_id, known_endpoints=known_endpoints
        )
        clock = RowClock(not_before_ms=max(not_before_ms, last_observed_ms or 0))
        self.writer = ObservationWriter(cluster.name, publisher, self.nodes, clock=clock)
        self._last_observed_ms = last_observed_ms
        self._start = start
        self._reads_again, self._one_of_many = reads_again, one_of_many
        self._log_follower: LogFollower | None = None
        self._quorum_poll: QuorumPoll | None = None

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self._cluster.name

    def poll_at(self, at_ms: int) -> None:
        """Sends one more DescribeQuorum at this time of the rows."""
        if self._quorum_poll is not None:
            self._quorum_poll.poll_in(self.writer.ms_until(at_ms) / 1000)

    def pause_log(self, pause_s: float) -> None:
        """Reads nothing more of the log for some seconds."""
        if self._log_follower is not None:
            self._log_follower.pause(pause_s)

    def start(self) -> None:
        """Starts the tasks."""
        if self._last_observed_ms is not None:
            gap_ms = max(0, wall_ms() - self._last_observed_ms)
            self.writer.write_gap(f"no observations for {gap_ms} ms: the gatherer was restarted")
        if self._reads_again:
            detail = "this kraftwatch knows other records than the one before, and reads the log again"
            self.writer.write_gap(detail, Reason.RECORDS_KNOWN)
        tasks: dict[ObservationSource, Callable[[], Coroutine[Any, Any, None]]] = {
            ObservationSource.QUORUM: self._poll_quorum
        }
        if self._cluster.log:
            tasks |= {
                ObservationSource.LOG: self._follow_log,
                ObservationSource.PROBE: lambda: EndpointProbe(self.client, self.nodes).run(self.writer),
                ObservationSource.LEADER_VIEW: self._poll_leader_views,
            }
        for source, run in tasks.items():
            self._loop.spawn(supervised(self._loop, self._cluster.name, source, self.writer, run))

    # Each run of a task begins with a new object: what made the former one fail may be in its state.

    async def _poll_quorum(self) -> None:
        self._quorum_poll = QuorumPoll(self.client, self.nodes, self.writer)
        await self._quorum_poll.run()

    async def _follow_log(self) -> None:
        start = self._start if self._log_follower is None else self._log_follower.position
        self._log_follower = LogFollower(
            self.client, self.nodes, self.writer, start=start, one_of_many=self._one_of_many
        )
        await self._log_follower.run()

    async def _poll_leader_views(self) -> None:
        interval_ms = self._cluster.view_interval_ms
        await LeaderViewPoll(self.client, self.nodes, self.writer, interval_ms=interval_ms).run()


async def supervised(
    loop: EventLoop,
    cluster: str,
    source: ObservationSource,
    output: ObservationWriter,
    start: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    """Runs the coroutine that `start` returns, and restarts it whenever it ends.

    Each end is recorded as a FailedObservation and logged.
    """
    while True:
        try:
            await start()
            fault = "it returned"
        except Exception as problem:  # noqa: BLE001 - no bug may stop the other clusters
            fault = describe_fault(problem)
        if loop.ending:
            return
        _LOG.error("Cluster %s: the %s task failed and is restarted: %s", cluster, source.value, fault)
        output.write_failure(
            FailedObservation(
                source=source, endpoint="", reason=Reason.TASK_FAILED, detail=f"internal error of the gatherer: {fault}"
            )
        )
        await loop.sleep(_RESTART_AFTER_S)


def describe_fault(problem: BaseException) -> str:
    """Describes an exception without secrets: the message of a KraftwatchError, otherwise class, file and line."""
    if isinstance(problem, KraftwatchError):
        return str(problem)
    frames = traceback.extract_tb(problem.__traceback__)
    where = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    return f"{type(problem).__name__}{where}"
