"""/metrics of the job: the newest status of every cluster, and the job's own work: batches, gatherer, notifications."""

import platform
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.core import Metric

from connectors.errors import StoreError
from connectors.gather.gatherer_stats import ClusterCounts, WrittenStats, read_stats
from connectors.process.wall_clock import wall_ms
from connectors.store.audit_results import AuditResults, ContractResult
from connectors.store.collection import Collection
from rules.finding import Severity
from streaming.metrics.batch_stats import BatchStats
from streaming.metrics.heartbeat import HeartbeatCounts
from streaming.metrics.metric_spec import CLUSTER, ClusterSample, MetricSpec, Values, family, registry
from streaming.metrics.quorum_metrics import KIP_METRICS, QUORUM_METRICS
from streaming.metrics.rates import Rates
from streaming.status.status_store import ReceivedStatus, StatusStore

T = TypeVar("T")
STATS_MAX_AGE_MS = 10_000
"""The gatherer writes its statistics each second: older ones are of a gatherer that no longer runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNow:
    """What is known at one time of how a job works."""

    is_alive: bool
    """Whether the rules are evaluated and the gatherer runs, or the job starts."""
    gatherer_runs: bool
    gatherer_pid: int | None
    """The process id of the newest gatherer; None where there is none."""
    heartbeats: HeartbeatCounts | None = None
    """Counts of the dead-man heartbeat; None where none is configured."""
    notifies: bool = True
    """Whether this job notifies; False while another job that shares its store does."""
    missing: Mapping[str, bool] = field(default_factory=dict)
    """Whether each thing that the job needs is missing, by name."""
    config_refused: bool | None = None
    """Whether the newest configuration file is rejected; None where command line options alone configure the job."""
    config_loaded_at_ms: int | None = None
    """When the version in effect was read, by the wall clock."""
    now_ms: int = field(default_factory=wall_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSources:
    """Where the metrics of a running job are read from."""

    store: StatusStore
    batch_stats: BatchStats
    journal: Path
    quarantine: Collection[dict[str, Any]]
    audits: AuditResults
    stats: Path
    """The file of `connectors.gather.gatherer_stats`."""
    now: Callable[[], JobNow]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSample:
    """The job at one scrape."""

    sources: JobSources
    now: JobNow
    written: WrittenStats | None
    """The newest statistics of a gatherer; it may no longer run."""
    audited: Sequence[ContractResult] | None
    """The newest audit; None where the store cannot be read."""
    received: Mapping[str, ReceivedStatus]
    """The newest status, of any age, of each configured cluster that has one."""

    @staticmethod
    def of(sources: JobSources) -> "JobSample":
        """Returns the job as it is now."""
        store = sources.store
        return JobSample(
            sources=sources,
            now=sources.now(),
            written=read_stats(sources.stats),
            audited=_stored(sources.audits.newest),
            received={name: newest for name in store.names if (newest := store.newest(name)) is not None},
        )

    @property
    def gatherer_stats(self) -> WrittenStats | None:
        """The statistics of the last 10 s."""
        fresh = self.written is not None and self.now.now_ms - self.written.at_ms <= STATS_MAX_AGE_MS
        return self.written if fresh else None

    @property
    def gathered(self) -> Mapping[str, ClusterCounts]:
        """Those of each cluster."""
        return {} if self.gatherer_stats is None else self.gatherer_stats.clusters


@cache
def _build() -> Mapping[tuple[str, ...], float]:
    return {(version("kraftwatch"), platform.python_version(), version("pyspark")): 1}


def _bytes(folder: Path) -> Values:
    """None where a file is deleted during the scan."""
    try:
        return sum(path.stat().st_size for path in folder.iterdir())
    except FileNotFoundError:
        return None


def _stored(read: Callable[[], T]) -> T | None:
    """None where the store cannot be read."""
    try:
        return read()
    except StoreError:
        return None


def _config_loaded(job: JobSample) -> Values:
    loaded_at_ms = job.now.config_loaded_at_ms
    return None if loaded_at_ms is None else loaded_at_ms / 1000


def _quarantined(job: JobSample) -> Values:
    # A message of a relay's topic that is no row has no cluster: it counts for its partition of the topic.
    return {
        (name,): job.sources.batch_stats.quarantined.get(name, 0)
        for name in {*job.received, *job.sources.batch_stats.quarantined}
    }


def _missing(read: Callable[[T], Mapping[str, bool]]) -> MetricSpec[T]:
    return MetricSpec(
        "dependency_missing",
        "1 while the job waits for it: its store, the relays' topic, Spark, cores, executors, the file system of the "
        "checkpoint, or room on its disk; else 0.",
        lambda sample: {(name,): missing for name, missing in read(sample).items()},
        ("dependency",),
    )


JOB_METRICS: tuple[MetricSpec[JobSample], ...] = (
    MetricSpec(
        "watchdog",
        "1 while the rules are evaluated and the gatherer runs, and while the job starts, else 0. An alert on 1 always "
        "fires; if it stops, kraftwatch is down or stuck.",
        lambda job: job.now.is_alive,
    ),
    MetricSpec(
        "understudy_counts",
        "1 while the job's own process evaluates the rules, because Spark does not, else 0; absent while neither does.",
        lambda job: None if (store := job.sources.store).engine is None else store.understudy_since_ms is not None,
    ),
    _missing(lambda job: job.now.missing),
    MetricSpec("build_info", "1, with the versions in use.", lambda job: _build(), ("version", "python", "spark")),
    MetricSpec(
        "config_refused",
        "1 while the newest configuration file is rejected, or the relay of a new cluster in it has sent nothing.",
        lambda job: job.now.config_refused,
    ),
    MetricSpec("config_loaded_timestamp_seconds", "When the configuration in effect was read.", _config_loaded),
    MetricSpec("batches_total", "Micro-batches that were delivered.", lambda job: job.sources.batch_stats.batches),
    MetricSpec("journal_bytes", "Size of the journal on the disk.", lambda job: _bytes(job.sources.journal)),
    MetricSpec(
        "quarantined_total",
        "Entries in quarantine since the job started: records that did not decode, rows on which "
        "kraftwatch failed, and damaged states.",
        _quarantined,
        (CLUSTER,),
    ),
    MetricSpec(
        "waiting_bytes",
        "Observations of a cluster that wait because their evaluation takes longer than a batch may; absent if none "
        "ever did.",
        lambda job: {(name,): rows.size for name, rows in job.sources.batch_stats.waiting.items()},
        (CLUSTER,),
    ),
    MetricSpec(
        "quarantine_files",
        "Descriptions in quarantine, of all clusters and all runs.",
        # A store that does not answer takes seconds to say so: asked twice, Prometheus would wait no longer.
        lambda job: None if job.audited is None else _stored(lambda: len(job.sources.quarantine)),
    ),
    MetricSpec(
        "audit_timestamp_seconds",
        "When the newest audit of the data contracts was made.",
        lambda job: job.audited[0].audited_at_ms / 1000 if job.audited else None,
    ),
    MetricSpec(
        "audit_rows",
        "Rows that the newest audit checked.",
        lambda job: {(result.suite,): result.checked_rows for result in job.audited or ()},
        ("suite",),
    ),
    MetricSpec(
        "audit_broken_rows",
        "Rows that violate a data contract, in the newest audit.",
        lambda job: {
            (result.suite, result.contract, result.severity.value): result.broken_rows for result in job.audited or ()
        },
        ("suite", "contract", "severity"),
    ),
)


def _of_sinks(name: str) -> Callable[[JobSample], Values]:
    return lambda job: {(sink,): getattr(result, name) for sink, result in job.sources.batch_stats.sinks.items()}


def _alerts_firing(job: JobSample) -> Values:
    """Every severity of every evaluated cluster, so that 0 is exported."""
    if job.sources.batch_stats.firing is None:
        return None
    counts = Counter((alert.cluster, alert.severity.value) for alert in job.sources.batch_stats.firing)
    return {(name, severity.value): counts[name, severity.value] for name in job.received for severity in Severity}


def _rules_firing(job: JobSample) -> Values:
    alerts = job.sources.batch_stats.firing or ()
    return Counter(
        (alert.cluster, alert.rule, alert.severity.value)
        for alert in alerts
        if alert.cluster in job.sources.store.names
    )


def _heartbeats(job: JobSample) -> Values:
    counts = job.now.heartbeats
    return {} if counts is None else {("sent",): counts.sent, ("failed",): counts.failed}


def _last_heartbeat(job: JobSample) -> Values:
    counts = job.now.heartbeats
    return None if counts is None or counts.last_sent_at_ms is None else counts.last_sent_at_ms / 1000


NOTIFICATION_METRICS: tuple[MetricSpec[JobSample], ...] = (
    MetricSpec("alerts_firing", "Firing alerts, by severity.", _alerts_firing, (CLUSTER, "severity")),
    MetricSpec(
        "rule_firing",
        "Subjects with a firing alert, by rule and severity. Absent for a rule without a firing alert.",
        _rules_firing,
        (CLUSTER, "rule", "severity"),
    ),
    MetricSpec(
        "sink_pending_alerts",
        "Alert transitions in the ledger that the sink has not received yet.",
        _of_sinks("pending"),
        ("sink",),
    ),
    MetricSpec(
        "sink_silenced_alerts",
        "Firing alerts that a silence withholds from this sink.",
        _of_sinks("silenced"),
        ("sink",),
    ),
    MetricSpec(
        "sink_failing",
        "1 while deliveries to the sink fail.",
        lambda job: {(sink,): result.failing is not None for sink, result in job.sources.batch_stats.sinks.items()},
        ("sink",),
    ),
    MetricSpec(
        "sink_notifications_total",
        "Notifications passed to the sink, by outcome: delivered, retry (sent again later) or rejected (sent "
        "again as a minimal document).",
        lambda job: job.sources.batch_stats.notifications,
        ("sink", "outcome"),
    ),
    MetricSpec(
        "notifies",
        "1 while this job notifies, 0 while another job that shares its store does.",
        lambda job: job.now.notifies,
    ),
    MetricSpec("heartbeats_total", "Requests of the dead-man heartbeat, sent or failed.", _heartbeats, ("outcome",)),
    MetricSpec(
        "heartbeat_last_sent_timestamp_seconds", "When the heartbeat's URL last accepted a request.", _last_heartbeat
    ),
)


def _of_gatherer(name: str) -> Callable[[JobSample], Values]:
    return lambda job: getattr(job.gatherer_stats, name, None)


def _loop_stall(job: JobSample) -> Values:
    stats = job.written if job.now.gatherer_runs else None
    if stats is None or stats.loop.pid != job.now.gatherer_pid:
        return None
    return max(stats.loop.longest_stall_s, stats.loop.standing_s)


def _errors(job: JobSample) -> Values:
    return {
        (name, source, reason): count
        for name, counts in job.gathered.items()
        for source, reasons in counts.failed_observations.items()
        for reason, count in reasons.items()
    }


def _of_received(read: Callable[[JobSample, ReceivedStatus], float | None]) -> Callable[[JobSample], Values]:
    return lambda job: {(name,): read(job, status) for name, status in job.received.items()}


def _staleness(job: JobSample, one: ReceivedStatus) -> float | None:
    answered = [at_ms for at_ms in (one.status.log_fetched_at_ms, one.status.described_at_ms) if at_ms is not None]
    return max(0, job.now.now_ms - max(answered)) / 1000 if answered else None


def _lag_records(_: JobSample, one: ReceivedStatus) -> float | None:
    high_watermark, last_offset = one.status.high_watermark, one.status.last_offset
    return None if high_watermark is None or last_offset is None else max(0, high_watermark - 1 - last_offset)


def _lag_s(job: JobSample, one: ReceivedStatus) -> float | None:
    newest_ms = one.status.newest_timestamp_ms
    return None if newest_ms is None else (job.now.now_ms - newest_ms) / 1000


GATHER_METRICS: tuple[MetricSpec[JobSample], ...] = (
    MetricSpec(
        "cluster_configured",
        "1 for each cluster in the configuration, whether it was observed or not.",
        lambda job: dict.fromkeys(((name,) for name in job.sources.store.names), 1),
        (CLUSTER,),
    ),
    MetricSpec(
        "staleness_seconds",
        "Time since a leader of this cluster last answered; absent if none ever did.",
        _of_received(_staleness),
        (CLUSTER,),
    ),
    MetricSpec(
        "status_age_seconds",
        "Time since a micro-batch last evaluated this cluster.",
        _of_received(lambda job, one: max(0, job.now.now_ms - (one.evaluated_at_ms or one.received_at_ms)) / 1000),
        (CLUSTER,),
    ),
    MetricSpec(
        "log_lag_records", "Committed records that are not applied yet.", _of_received(_lag_records), (CLUSTER,)
    ),
    MetricSpec(
        "log_lag_seconds",
        "Age of the newest applied record: the monitor's clock minus the record's timestamp, so it includes any "
        "clock difference. An idle log gets a record twice a second.",
        _of_received(_lag_s),
        (CLUSTER,),
    ),
    MetricSpec("gatherer_up", "1 while the gatherer process runs.", lambda job: job.now.gatherer_runs),
    MetricSpec("gatherer_cpu_seconds_total", "CPU time of the gatherer.", _of_gatherer("cpu_s")),
    MetricSpec("gatherer_resident_memory_bytes", "Resident memory of the gatherer.", _of_gatherer("rss_bytes")),
    MetricSpec(
        "gatherer_loop_stall_seconds",
        "Longest time in the last minute for which the event loop of the gatherer, which serves all clusters, did "
        "not run. Above 5 s /healthz fails.",
        _loop_stall,
    ),
    MetricSpec("gathered_rows_total", "Observations that were written to the journal.", _of_gatherer("rows")),
    MetricSpec(
        "gather_requests_total",
        "Requests that were sent to the nodes of a cluster.",
        lambda job: {(name,): each.requests_sent for name, each in job.gathered.items()},
        (CLUSTER,),
    ),
    MetricSpec(
        "gather_errors_total", "Failed observations, by data source and reason.", _errors, (CLUSTER, "source", "reason")
    ),
)


CLUSTER_METRICS = (*KIP_METRICS, *QUORUM_METRICS)
OWN_METRICS = (*JOB_METRICS, *GATHER_METRICS, *NOTIFICATION_METRICS)
# The `_created` series that prometheus_client adds to counters and histograms are not used.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has types but for this

STATUS_MAX_AGE_MS = 60_000
"""A cluster with an older status loses its metrics; `staleness_seconds` stays."""


def job_registry(sources: JobSources) -> CollectorRegistry:
    """Returns a registry of every metric of the job."""

    def collect() -> Iterator[Metric]:
        job = JobSample.of(sources)
        clusters = [
            ([name], ClusterSample(status=newest.status, rates=job.sources.batch_stats.rates.get(name, Rates())))
            for name, newest in job.received.items()
            if job.now.now_ms - newest.received_at_ms <= STATUS_MAX_AGE_MS
        ]
        yield from (family(spec, clusters, [CLUSTER]) for spec in CLUSTER_METRICS)
        yield from (family(spec, [((), job)], []) for spec in OWN_METRICS)

    return registry(collect, sources.batch_stats.durations)


def start_registry(missing: Callable[[], Mapping[str, bool]]) -> CollectorRegistry:
    """Returns a registry of the metrics while a job starts: what it waits for."""
    spec: MetricSpec[None] = _missing(lambda _: missing())
    return registry(lambda: [family(spec, [((), None)], [])])
