"""The newest status of every cluster and the newest delivery, for the threads that serve pages and metrics."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from connectors.delivery.delivery_report import DeliveryReport, SinkResult
from connectors.process.wall_clock import wall_ms
from rules.alert import Alert
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.model.job_state import BlindCluster
from streaming.status.cluster_status import ClusterStatus
from streaming.status.health import unobserved_quorum

ENDED_RECOVERIES_KEPT = 64
"""Ended recoveries that are kept for each cluster, the newest ones."""

OBSERVED_MS = Millis(60_000)
"""A cluster whose newest status is older is not observed."""


class Engine(StrEnum):
    """What evaluates the rules."""

    SPARK = "spark"
    UNDERSTUDY = "understudy"
    """A thread of the job's own process, while Spark does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingEngine:
    """Which engine's evaluations count now."""

    name: Engine
    since_ms: Millis
    """By the wall clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRecovery:
    """A topic whose partitions were RECOVERING and no longer are."""

    topic: str | None
    topic_id: str
    since_ms: Millis
    """Timestamp of the log."""
    ended_ms: Millis
    """The quorum's `now_ms` when a status no longer held the topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedStatus:
    """One cluster's newest status."""

    status: ClusterStatus
    received_at_ms: Millis
    """When its batch was delivered, by the wall clock."""
    evaluated_at_ms: Millis | None = None
    """When the newest batch was delivered that evaluated the cluster; None: it is that of the status."""
    ended_recoveries: tuple[EndedRecovery, ...] = ()
    """Since the job started, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestDelivery:
    """The newest delivery."""

    history: Sequence[Alert]
    """Every alert transition that the ledger holds, of all clusters, oldest first."""
    sinks: Mapping[str, SinkResult]
    """By sink name."""
    at_ms: Millis
    """When it ended, by the wall clock."""


class StatusStore:
    """Written by the thread that delivers batches, read by any thread."""

    def __init__(self, names: Sequence[str], *, waiting: Sequence[str] = ()) -> None:
        """Begins without a status; `set_clusters` replaces both lists.

        `names`: the monitored clusters, in the configuration's order; `waiting`: those that do not answer yet.
        """
        self._lock = threading.Lock()
        self.names: Sequence[str] = tuple(names)
        """Every monitored cluster, in the configuration's order."""
        self._waiting = tuple(waiting)
        self.delivery: NewestDelivery | None = None
        """The newest delivery; None before the first one."""
        self._received: dict[str, ReceivedStatus] = {}
        self.engine: CountingEngine | None = None
        """Which engine counts; None while none evaluates."""

    @property
    def understudy_since_ms(self) -> Millis | None:
        """Since when the understudy counts; None: it does not."""
        return self.engine.since_ms if self.engine is not None and self.engine.name is Engine.UNDERSTUDY else None

    def set_engine(self, name: Engine | None) -> None:
        """Notes which engine counts now; None: none evaluates."""
        if name is None:
            self.engine = None
        elif self.engine is None or self.engine.name is not name:
            self.engine = CountingEngine(name=name, since_ms=wall_ms())

    @property
    def configured(self) -> Sequence[str]:
        """Every configured cluster, also those that are not monitored yet."""
        return (*self.names, *self._waiting)

    def set_clusters(self, names: Sequence[str]) -> None:
        """Replaces the configured clusters, which are all monitored; the status of one that stays is kept."""
        with self._lock:
            self.names, self._waiting = tuple(names), ()
            self._received = {name: status for name, status in self._received.items() if name in set(names)}

    def put_status(self, status: ClusterStatus, *, at_ms: Millis) -> None:
        """Stores a cluster's newest status."""
        with self._lock:
            before = self._received.get(status.cluster)
            ended = () if before is None else (*before.ended_recoveries, *_ended(before.status, status))
            self._received[status.cluster] = ReceivedStatus(
                status=status, received_at_ms=at_ms, ended_recoveries=ended[-ENDED_RECOVERIES_KEPT:]
            )

    def put_evaluation(self, cluster: str, *, at_ms: Millis) -> None:
        """Stores that a cluster was evaluated; not every evaluation of many clusters makes a status."""
        with self._lock:
            if (before := self._received.get(cluster)) is not None:
                self._received[cluster] = replace(before, evaluated_at_ms=at_ms)

    def put_delivery(self, report: DeliveryReport, history: Callable[[], Sequence[Alert]], *, at_ms: Millis) -> None:
        """Stores the newest delivery; reads the ledger's `history` only when the delivery recorded something."""
        before = self.delivery
        unchanged = before.history if before is not None and report.recorded == 0 else None
        self.delivery = NewestDelivery(
            history=history() if unchanged is None else unchanged, sinks=report.sinks, at_ms=at_ms
        )

    def observes_any(self, now_ms: Millis) -> bool:
        """Returns whether at least one cluster is observed now: a status arrived, and some data source answered."""
        with self._lock:
            return any(
                now_ms - status.received_at_ms <= OBSERVED_MS and unobserved_quorum(status.status.findings) is None
                for status in self._received.values()
            )

    def observes(self, cluster: str) -> bool:
        """Returns whether the newest status of a cluster observes something of its quorum."""
        received = self.newest(cluster)
        return received is not None and unobserved_quorum(received.status.findings) is None

    def blind(self) -> Sequence[BlindCluster]:
        """Returns the clusters whose newest status observes nothing of the quorum."""
        with self._lock:
            return [found for status in self._received.values() if (found := _blind(status.status)) is not None]

    def newest(self, cluster: str) -> ReceivedStatus | None:
        """The newest status of a cluster; None before the first one."""
        with self._lock:
            return self._received.get(cluster)


def _ended(before: ClusterStatus, after: ClusterStatus) -> list[EndedRecovery]:
    """Returns the topics that are no longer recovering; none where no log was read, or not all topics are named."""
    named = sum(recovery.partitions for recovery in after.recoveries)
    if after.recovering_partitions is None or named < after.recovering_partitions:
        return []
    recovering = {recovery.topic_id for recovery in after.recoveries}
    return [
        EndedRecovery(
            topic=recovery.topic, topic_id=recovery.topic_id, since_ms=recovery.since_ms, ended_ms=after.now_ms
        )
        for recovery in before.recoveries
        if recovery.topic_id not in recovering
    ]


def _blind(status: ClusterStatus) -> BlindCluster | None:
    finding = unobserved_quorum(status.findings)
    if finding is None:
        return None
    about = (finding.rule, finding.subject)
    began = (condition.started_at_ms for condition in status.pending if (condition.rule, condition.subject) == about)
    return BlindCluster(
        name=status.cluster,
        since_ms=next(began, status.now_ms),
        reasons=frozenset(observation.reason for observation in status.failing),
        alert=None,
        critical=finding.severity is Severity.CRITICAL,
    )
