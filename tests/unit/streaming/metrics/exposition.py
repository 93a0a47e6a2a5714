"""A job as /metrics looks into it, with clusters in any situation, and what the page then says."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from connectors.delivery.delivery_report import DeliveryReport, SinkResult
from rules.alert import Alert
from rules.evaluate import thresholds_for
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from streaming.metrics.batch_stats import BatchStats, DeliveredBatch
from streaming.metrics.exporter import registry
from streaming.metrics.heartbeat import HeartbeatCounts
from streaming.metrics.job_metrics import JobSources
from streaming.status.cluster_status import portrait
from streaming.status.status_store import StatusStore
from tests.unit.rules.situation import NOW

Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


class Running:
    """A job that is told its batches by the test."""

    def __init__(self, folder: Path, names: Sequence[str] = ("prod",), firing: Iterable[Alert] = ()) -> None:
        self.fleet = StatusStore(names)
        self.witness = BatchStats(firing=lambda: [*firing])
        self.folder = folder
        self.now_ms = int(NOW)
        self.well = True
        self.beats: HeartbeatCounts | None = None
        self.sources = JobSources(
            fleet=self.fleet,
            witness=self.witness,
            well=lambda: self.well,
            gathers=lambda: True,
            journal=folder / "journal",
            quarantine=folder / "quarantine",
            stats=folder / "stats.json",
            beats=lambda: self.beats,
            wall_ms=lambda: self.now_ms,
        )

    def batch(
        self,
        *quorums: Quorum,
        sinks: Mapping[str, SinkResult] | None = None,
        quarantined: Mapping[str, int] | None = None,
        took_s: float = 0.2,
    ) -> "Running":
        """A micro-batch that showed these clusters."""
        shown = {quorum.cluster: json.loads(json.dumps(portrait(quorum, thresholds_for({})))) for quorum in quorums}
        for name, one in shown.items():
            self.fleet.show(name, one, at_ms=Millis(self.now_ms))
        report = DeliveryReport(recorded=0, sinks=sinks or {})
        self.witness.take(DeliveredBatch(took_s=took_s, portraits=shown, quarantined=quarantined or {}, report=report))
        return self

    def text(self) -> str:
        """The page."""
        return generate_latest(registry(self.sources)).decode()

    def samples(self) -> Samples:
        """Every sample of the page: name without prefix and labels without cluster `prod`."""
        return samples(self.text())


def samples(text: str) -> Samples:
    """Every sample of a page: name without prefix and labels without cluster `prod`."""
    return {
        (
            one.name.removeprefix("kraftwatch_"),
            tuple(sorted(label for label in one.labels.items() if label != ("cluster", "prod"))),
        ): one.value
        for metric in text_string_to_metric_families(text)
        for one in metric.samples
    }


def reader(samples: Samples) -> Callable[..., float | None]:
    """Asks for one sample by name and labels; None where it is absent."""
    return lambda name, **labels: samples.get((name, tuple(sorted(labels.items()))))


def names(samples: Samples) -> set[str]:
    """The names that have any sample."""
    return {name for name, _ in samples}
