"""Metrics about notifications: firing alerts, each sink, and the heartbeat."""

from collections import Counter
from collections.abc import Callable

from rules.finding import Severity
from streaming.metrics.job_metrics import JobSample
from streaming.metrics.metric_spec import CLUSTER, MetricKind, MetricSpec, Values


def _of_sinks(name: str) -> Callable[[JobSample], Values]:
    return lambda job: {(sink,): getattr(result, name) for sink, result in job.totals.sinks.items()}


def _failing(job: JobSample) -> Values:
    return {(sink,): result.failing is not None for sink, result in job.totals.sinks.items()}


def _alerts_firing(job: JobSample) -> Values:
    """Every severity of every evaluated cluster, so that 0 is exported."""
    if job.totals.firing is None:
        return None
    counts = Counter((alert.cluster, alert.severity.value) for alert in job.totals.firing)
    return {(name, severity.value): counts[name, severity.value] for name in job.statuses for severity in Severity}


def _rules_firing(job: JobSample) -> Values:
    alerts = job.totals.firing or ()
    return Counter(
        (one.cluster, one.rule, one.severity.value) for one in alerts if one.cluster in job.sources.store.names
    )


def _heartbeats(job: JobSample) -> Values:
    counts = job.sources.heartbeats()
    return {} if counts is None else {("sent",): counts.sent, ("failed",): counts.failed}


def _last_heartbeat(job: JobSample) -> Values:
    counts = job.sources.heartbeats()
    return None if counts is None or counts.last_sent_at_ms is None else counts.last_sent_at_ms / 1000


NOTIFICATION_METRICS: tuple[MetricSpec[JobSample], ...] = (
    MetricSpec(
        name="alerts_firing",
        help="Firing alerts, by severity.",
        read=_alerts_firing,
        labels=(CLUSTER, "severity"),
    ),
    MetricSpec(
        name="rule_firing",
        help="Subjects with a firing alert, by rule and severity. Absent for a rule without a firing alert.",
        read=_rules_firing,
        labels=(CLUSTER, "rule", "severity"),
    ),
    MetricSpec(
        name="sink_pending_alerts",
        help="Alert transitions in the ledger that the sink has not received yet.",
        read=_of_sinks("pending"),
        labels=("sink",),
    ),
    MetricSpec(
        name="sink_silenced_alerts",
        help="Firing alerts that a silence withholds from this sink.",
        read=_of_sinks("silenced"),
        labels=("sink",),
    ),
    MetricSpec(
        name="sink_failing",
        help="1 while deliveries to the sink fail.",
        read=_failing,
        labels=("sink",),
    ),
    MetricSpec(
        name="sink_notifications_total",
        help="Notifications passed to the sink, by outcome: delivered, retry (sent again later) or rejected (sent "
        "again as a minimal document).",
        read=lambda job: job.totals.notifications,
        labels=("sink", "outcome"),
        kind=MetricKind.COUNTER,
    ),
    MetricSpec(
        name="standby_silent",
        help="Of a standby job: 1 while the first job's heartbeats arrive, 0 while this job notifies instead.",
        read=lambda job: job.sources.standby_silent(),
    ),
    MetricSpec(
        name="standby_heartbeats_total",
        help="Of a standby job: heartbeats of the first job that have arrived.",
        read=lambda job: job.sources.standby_heartbeats(),
        kind=MetricKind.COUNTER,
    ),
    MetricSpec(
        name="heartbeats_total",
        help="Requests of the dead-man heartbeat, sent or failed.",
        read=_heartbeats,
        labels=("outcome",),
        kind=MetricKind.COUNTER,
    ),
    MetricSpec(
        name="heartbeat_last_sent_timestamp_seconds",
        help="When the heartbeat's URL last accepted a request.",
        read=_last_heartbeat,
    ),
)
