"""A job whose batches a test delivers, and the samples of its /metrics."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from connectors.delivery.delivery_report import DeliveryReport, SinkResult
from connectors.store.audit_results import AuditResults
from connectors.store.collection import quarantine_of
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.evaluate import thresholds_for
from rules.facts.quorum import Facts
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from streaming.metrics.batch_stats import BatchStats, DeliveredBatch
from streaming.metrics.heartbeat import HeartbeatCounts
from streaming.metrics.job_metrics import JobNow, JobSources, job_registry
from streaming.status.build_status import job_cluster_status
from streaming.status.cluster_status import from_json, to_bytes
from streaming.status.status_store import StatusStore
from tests.situation.situation import NOW

Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


class MetricsFixture:
    """A job whose batches the test delivers."""

    def __init__(self, folder: Path, names: Sequence[str] = ("prod",), firing: Iterable[Alert] = ()) -> None:
        self.store = StatusStore(names)
        self.batch_stats = BatchStats()
        self.firing = [*firing]
        self.folder = folder
        self.now_ms = int(NOW)
        self.healthy = True
        self.gatherer_pid: int | None = 1
        self.heartbeats: HeartbeatCounts | None = None
        self.config_loaded_at_ms: int | None = None
        self.sources = JobSources(
            store=self.store,
            batch_stats=self.batch_stats,
            journal=folder / "journal",
            quarantine=quarantine_of(job_database(folder)),
            audits=AuditResults(job_database(folder)),
            stats=folder / "stats.json",
            now=self._now,
        )

    def _now(self) -> JobNow:
        return JobNow(
            is_alive=self.healthy,
            gatherer_runs=True,
            gatherer_pid=self.gatherer_pid,
            heartbeats=self.heartbeats,
            config_refused=None if self.config_loaded_at_ms is None else True,
            config_loaded_at_ms=self.config_loaded_at_ms,
            now_ms=self.now_ms,
        )

    def batch(
        self,
        *quorums: Quorum,
        sinks: Mapping[str, SinkResult] | None = None,
        quarantined: Mapping[str, int] | None = None,
        took_s: float = 0.2,
    ) -> "MetricsFixture":
        """Delivers a micro-batch with these clusters."""
        statuses = [from_json(to_bytes(job_cluster_status(Facts(quorum), thresholds_for({})))) for quorum in quorums]
        for status in statuses:
            self.store.put_status(status, at_ms=Millis(self.now_ms))
        report = DeliveryReport(recorded=0, sinks=sinks or {})
        self.batch_stats.add(
            DeliveredBatch(took_s=took_s, statuses=statuses, quarantined=quarantined or {}, report=report),
            self.firing,
        )
        return self

    def text(self) -> str:
        """The text of /metrics."""
        return generate_latest(job_registry(self.sources)).decode()

    def samples(self) -> Samples:
        """Every sample: name without prefix and labels without cluster `prod`."""
        return samples(self.text())


def samples(text: str) -> Samples:
    """Every sample of a text: name without prefix and labels without cluster `prod`."""
    return {
        (
            one.name.removeprefix("kraftwatch_"),
            tuple(sorted(label for label in one.labels.items() if label != ("cluster", "prod"))),
        ): one.value
        for metric in text_string_to_metric_families(text)
        for one in metric.samples
    }


def reader(samples: Samples) -> Callable[..., float | None]:
    """Returns a function that reads one sample by name and labels; None where it is absent."""
    return lambda name, **labels: samples.get((name, tuple(sorted(labels.items()))))


def names(samples: Samples) -> set[str]:
    """The names that have a sample."""
    return {name for name, _ in samples}
