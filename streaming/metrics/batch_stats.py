"""Counts of the job's own work, for /metrics."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import Histogram

from connectors.delivery.delivery_report import DeliveryReport, SinkResult
from rules.alert import Alert
from streaming.metrics.metric_spec import PREFIX
from streaming.metrics.rates import Rates
from streaming.replay.cluster_monitor import WaitingRows
from streaming.status.cluster_status import ClusterStatus
from streaming.status.health import unobserved_quorum

BATCH_DURATION = PREFIX + "batch_duration_seconds"
DURATION_HELP = "Duration of a micro-batch, from Spark's call to the end of delivery."
_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredEvaluations:
    """What an engine has evaluated and was delivered."""

    statuses: Sequence[ClusterStatus]
    """The status of each cluster that had rows."""
    refused: Sequence[str] = ()
    """Refused messages of a relay's topic, as the quarantine keeps them."""
    waiting: Mapping[str, WaitingRows] = field(default_factory=dict)
    """Rows that wait to be applied, of the clusters that have some or had some before."""

    @property
    def observed_ms(self) -> int:
        """The newest time of a cluster of which something is observed; 0 if there is none."""
        seen = (status.observed_at_ms for status in self.statuses if unobserved_quorum(status.findings) is None)
        return max((at_ms for at_ms in seen if at_ms is not None), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredBatch(DeliveredEvaluations):
    """One micro-batch of Spark that was delivered."""

    took_s: float
    """From Spark's call to the end of delivery: the batch's plan included."""
    quarantined: Mapping[str, int]
    """New entries in quarantine, by cluster: records that did not decode, skipped rows, damaged states."""
    report: DeliveryReport


class BatchStats:
    """The counts since the job started.

    Written by the thread that delivers, read by any thread: attributes are replaced, never changed.
    """

    def __init__(self) -> None:
        """Counts from zero."""
        self.batches = 0
        self.quarantined: Mapping[str, int] = Counter()
        """By cluster."""
        self.waiting: Mapping[str, WaitingRows] = {}
        """Rows that wait to be applied, of the clusters that ever had some."""
        self.sinks: Mapping[str, SinkResult] = {}
        """Of the newest delivery, by sink."""
        self.notifications: Mapping[tuple[str, ...], int] = {}
        """By sink and outcome."""
        self.firing: Sequence[Alert] | None = None
        """After the newest batch, or the newest alert of the job itself: while relays are silent no batch comes. None
        before the first one."""
        self.rates: Mapping[str, Rates] = {}
        """By cluster."""
        self.durations = Histogram(BATCH_DURATION, DURATION_HELP, buckets=_BUCKETS, registry=None)

    def add(self, batch: DeliveredBatch, firing: Sequence[Alert]) -> None:
        """Adds a batch that was delivered, and the alerts that fire after it."""
        rates = dict(self.rates)
        for status in batch.statuses:
            rates.setdefault(status.cluster, Rates()).add(status)
        notifications = Counter(self.notifications)
        for sink, result in batch.report.sinks.items():
            notifications[sink, "delivered"] += result.delivered
            notifications[sink, "retry"] += result.retry
            notifications[sink, "rejected"] += result.rejected
        self.batches += 1
        self.quarantined = Counter(self.quarantined) + Counter(batch.quarantined)
        self.waiting = {**self.waiting, **batch.waiting}
        self.sinks, self.notifications, self.rates = batch.report.sinks, notifications, rates
        self.firing = firing
        self.durations.observe(batch.took_s)
