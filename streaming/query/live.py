"""Queries clusters for some seconds: the gatherer's own code in this process, replayed and evaluated, nothing written.

Observations go to the same machine and the same rules as in the streaming job, after those that a job has recorded;
but holds do not apply: a finding is what is true now. A query ends when the log is read to its high watermark,
DescribeQuorum is answered, every voter's recorded endpoint is probed and no rule is unknown; or when no controller
leads for as long as `no-leader` holds; or when the time is up. Then `missing` lists what did not arrive.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from connectors.errors import ObservationError, UsageError
from connectors.kafka.cluster_id_lookup import identify
from connectors.kafka.event_loop import EventLoop
from rules.model.monitoring import Reason
from streaming.query.query_target import QueryTarget

if TYPE_CHECKING:
    from connectors.observations.observation import Observation
    from streaming.query.live_cluster import LiveCluster
    from streaming.query.recording import ReplayedJournal
    from streaming.status.cluster_status import ClusterState

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


def query_clusters(
    targets: Sequence[QueryTarget],
    *,
    timeout_s: float,
    say: Say = lambda _: None,
    recorded: "Callable[[Sequence[QueryTarget]], Mapping[str, ReplayedJournal]] | None" = None,
    each: "Callable[[Sequence[ClusterState]], bool]" = lambda _: False,
) -> "Sequence[ClusterState]":
    """Queries clusters side by side; returns the last state of each target, in their order.

    Args:
        timeout_s: how long to wait for data that is missing.
        say: prints what is missing, when that takes more than two seconds.
        recorded: reads the recorded states with which the query begins, by the names of the targets.
        each: receives the state of all clusters; True requests them again, one second later.

    Raises:
        UsageError: another cluster answers than was configured.
    """
    with ThreadPoolExecutor(max_workers=min(16, len(targets))) as pool:
        answers = pool.map(_identified, targets)
        # Imported while the nodes answer: the replay and the rules take as long to load as the client.
        from connectors.gather.publisher import Publisher
        from streaming.query.live_cluster import LiveCluster

        identified = list(answers)
    states = {} if recorded is None else recorded(identified)
    loop = EventLoop()
    clusters = {target.cluster.name: LiveCluster(target, states.get(target.cluster.name)) for target in identified}
    publisher = Publisher(_ReplayAppender(clusters), loop, on_failure=loop.stop)
    gatherers = [clusters[target.cluster.name].gatherer(loop, publisher) for target in identified]

    def current() -> "Sequence[LiveCluster]":
        # Rows that show only that time passes wait for others: an answer needs them, too.
        publisher.publish()
        return [*clusters.values()]

    async def main() -> "Sequence[ClusterState]":
        for gatherer in gatherers:
            gatherer.start()
        await _wait_until_complete(loop, current, timeout_s=timeout_s, say=say)
        while each(states := [cluster.state() for cluster in current()]):
            await loop.sleep(_REPEAT_EVERY_S)
        return states

    try:
        return loop.run(main)
    finally:
        loop.ending = True
        for gatherer in gatherers:
            gatherer.client.close()
        loop.close()


async def _wait_until_complete(
    loop: EventLoop, clusters: "Callable[[], Sequence[LiveCluster]]", *, timeout_s: float, say: Say
) -> None:
    began, reported = loop.now(), ""
    while True:
        incomplete = [cluster for cluster in clusters() if not cluster.complete()]
        passed = loop.now() - began
        reading = any(cluster.reading for cluster in incomplete)
        if not incomplete or passed > timeout_s * (_READING_TIMES if reading else 1):
            return
        missing = "; ".join(
            f"{cluster.name}: {', '.join(cluster.missing() or (_UNKNOWN_RULES,))}" for cluster in incomplete
        )
        if passed * 1000 > _REPORT_AFTER_MS and missing != reported:
            say(f"still waiting: {missing}")
            reported = missing
        await loop.sleep(_CHECK_EVERY_S)


class _ReplayAppender:
    """The Appender that writes nothing: it applies each row as it arrives."""

    def __init__(self, clusters: "Mapping[str, LiveCluster]") -> None:
        self._clusters = clusters

    def append(self, observations: "list[Observation]", /) -> None:
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
