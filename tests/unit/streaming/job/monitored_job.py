"""A job that reports on itself, whose clocks, clusters, topics and sinks a test changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

from connectors.delivery.delivery_report import DeliveryReport
from connectors.delivery.ledger import Ledger
from connectors.sinks.sink import DeliveryMode
from connectors.store.audit_results import AuditResults
from connectors.store.tables import job_database
from rules.alert import Alert, AlertState
from rules.evaluate import thresholds_for
from rules.finding import FindingFacts, Severity
from rules.firing import Firing
from rules.model.identifiers import Millis
from rules.model.job_state import BlindCluster
from rules.model.monitoring import Reason
from rules.notifications.route import Route
from streaming.job.dependencies import Dependency, Missing
from streaming.job.job_monitor import JobInputs, JobMonitor
from streaming.job.newest_audit import NewestAudit
from streaming.metrics.batch_stats import DeliveredBatch
from streaming.pipeline import notifying
from streaming.pipeline.notifying import Notifying
from streaming.pipeline.topic_files import TopicState
from streaming.replay.cluster_monitor import WaitingRows
from streaming.status.status_store import StatusStore
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, RecordingSink, alert
from tests.unit.streaming.status.statuses import NO_OBSERVATION

EMPTY_BATCH = DeliveredBatch(took_s=0.1, statuses=[], quarantined={}, report=DeliveryReport(recorded=0, sinks={}))


@dataclass
class MonitoredJob:
    """With a sink for people for each route, and a record."""

    folder: Path
    clusters: Sequence[str] = ("a", "b")
    routes: Sequence[Route] = (Route(),)
    topics: Mapping[str, str] = field(default_factory=dict)
    read_s_ago: float | None = 0
    """How long ago topic `t` was read to its end; None: it has a backlog."""
    row_s_ago: dict[str, float] = field(default_factory=dict)
    """How long ago the newest row of a cluster was read that waits for a batch."""
    reasons: frozenset[Reason] = frozenset({Reason.TIMED_OUT})
    """Why nothing is observed of the clusters that are blind."""
    blind: dict[str, float] = field(default_factory=dict)
    """The clusters whose status says that nothing is observed, and since when in seconds."""
    missing: dict[Dependency, tuple[str, float]] = field(default_factory=dict)
    """Why each thing is missing, and since when in seconds."""
    wall_ms: int = NOON_MS
    steady_ms: int = 100_000

    def __post_init__(self) -> None:
        self.sinks = [
            RecordingSink(name=f"sink {number}", mode=DeliveryMode.INCIDENTS, route=route)
            for number, route in enumerate(self.routes)
        ]
        self.record = RecordingSink(name="record")
        self.began_ms = self.wall_ms
        self.restart()

    def restart(self) -> None:
        database = job_database(self.folder)
        self.ledger, self.audits = Ledger(database), AuditResults(database)
        self.newest_audit = NewestAudit(self.audits, lambda: Millis(self.steady_ms))
        self.monitor = JobMonitor(
            self._inputs, steady=lambda: Millis(self.steady_ms), wall=lambda: Millis(self.wall_ms)
        )
        self.notifying = Notifying(
            self.ledger,
            [*self.sinks, self.record],
            store=StatusStore(self.clusters),
            job=self.monitor,
            deadline_s=30,
            patience_s=30,
        )

    def set_sinks(self, *sinks: RecordingSink) -> None:
        self.sinks = [*sinks]
        self.notifying.set_sinks([*self.sinks, self.record])

    def _inputs(self) -> JobInputs:
        return JobInputs(
            thresholds=thresholds_for({}),
            clusters=self.clusters,
            repeated_ids={},
            without_id=(),
            topics=self.topics,
            read=TopicState(
                read_to_end_at={} if self.read_s_ago is None else {"t": self.steady_ms / 1_000 - self.read_s_ago},
                row_at={name: self.steady_ms / 1_000 - ago_s for name, ago_s in self.row_s_ago.items()},
            ),
            blind=[
                BlindCluster(name=name, since_ms=self.at(since), reasons=self.reasons, alert=None, critical=True)
                for name, since in self.blind.items()
            ],
            missing=[
                Missing(name=name, why=why, for_ms=Millis(self.wall_ms - self.at(since)))
                for name, (why, since) in self.missing.items()
            ],
            audit=self.newest_audit.state(),
        )

    def at(self, seconds: float) -> Millis:
        return Millis(self.began_ms + round(1_000 * seconds))

    def batch(
        self,
        *clusters: str,
        refused: Sequence[str] = (),
        waiting: Mapping[str, WaitingRows] | None = None,
        late_ms: int = 0,
    ) -> None:
        observed_at_ms = Millis(self.wall_ms - late_ms)
        statuses = [replace(NO_OBSERVATION, cluster=name, observed_at_ms=observed_at_ms) for name in clusters]
        self.monitor.note_batch(replace(EMPTY_BATCH, statuses=statuses, refused=refused, waiting=waiting or {}))

    def after(self, seconds: float, *firings: Firing, step_ms: int = 0) -> list[Alert]:
        """Sends once each second and returns the transitions about the job; the clock is set in the last one."""
        known = len(self.ledger.history())
        whole, rest = divmod(round(1_000 * seconds), 1_000)
        for duration_ms in [1_000] * whole + [rest] * bool(rest or not whole):
            self.steady_ms += duration_ms
            self.wall_ms += duration_ms
            self._send()
        if step_ms:
            self.wall_ms += step_ms
        for each in firings:
            self.notifying.put(replace(each, evaluated_ms=Millis(self.wall_ms)))
        if firings or step_ms:
            self._send()
        return [one for one in self.ledger.history()[known:] if one.cluster == "kraftwatch"]

    def _send(self) -> None:
        with patch.object(notifying, "wall_ms", lambda: Millis(self.wall_ms)):
            self.notifying.send()

    def blinded(self, *names: str, severity: Severity = Severity.CRITICAL, since: float = 0) -> list[Firing]:
        """Returns that `monitor-blind` of these clusters fires."""
        return [
            Firing(
                cluster=name,
                evaluated_ms=Millis(self.wall_ms),
                alerts=(
                    alert(
                        "quorum",
                        rule="monitor-blind",
                        cluster=name,
                        cluster_id=f"id of {name}",
                        severity=severity,
                        facts=FindingFacts(unobserved=tuple(self.reasons)),
                        started_at_ms=self.at(since),
                        observed_at_ms=Millis(self.wall_ms),
                    ),
                ),
            )
            for name in names
        ]

    def observed(self, *names: str) -> list[Firing]:
        return [Firing(cluster=name, evaluated_ms=Millis(self.wall_ms)) for name in names]

    def sent(self, sink: int = 0) -> list[str]:
        """Returns what a sink got since the last call: reason, severity, clusters, subjects."""
        notifications = self.sinks[sink].notifications
        found = [
            f"{each.reason} {each.severity} " + ", ".join(f"{one.cluster} {one.subject}" for one in each.alerts)
            for each in notifications
        ]
        del notifications[:]
        return found


def brief(alerts: Sequence[Alert]) -> list[tuple[str, AlertState]]:
    return [(one.subject, one.state) for one in alerts]
