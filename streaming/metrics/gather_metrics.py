"""Metrics about the gatherer: how old the data is, how far the log is read, and which observations fail."""

from collections.abc import Callable

from connectors.gather.gatherer_stats import read_stats
from streaming.metrics.job_metrics import JobSample
from streaming.metrics.metric_spec import CLUSTER, MetricKind, MetricSpec, Values


def _of_gatherer(name: str) -> Callable[[JobSample], Values]:
    def read(job: JobSample) -> Values:
        value: Values = None if job.gatherer_stats is None else getattr(job.gatherer_stats, name)
        return value

    return read


def _loop_stall(job: JobSample) -> Values:
    stats = read_stats(job.sources.stats) if job.sources.gatherer_runs() else None
    if stats is None or stats.loop.pid != job.sources.gatherer_pid():
        return None
    return max(stats.loop.longest_stall_s, stats.loop.standing_s)


def _requests(job: JobSample) -> Values:
    clusters = {} if job.gatherer_stats is None else job.gatherer_stats.clusters
    return {(name,): each.requests_sent for name, each in clusters.items()}


def _errors(job: JobSample) -> Values:
    clusters = {} if job.gatherer_stats is None else job.gatherer_stats.clusters
    return {
        (name, source, reason): count
        for name, each in clusters.items()
        for source, reasons in each.failed_observations.items()
        for reason, count in reasons.items()
    }


def _staleness(job: JobSample) -> Values:
    times = {name: _newest(one.log_seen_at_ms, one.described_at_ms) for name, one in job.statuses.items()}
    return {(name,): max(0, job.now_ms - at_ms) / 1000 for name, at_ms in times.items() if at_ms is not None}


def _newest(*times: int | None) -> int | None:
    return max((at_ms for at_ms in times if at_ms is not None), default=None)


def _status_age(job: JobSample) -> Values:
    store = job.sources.store
    received = {name: store.newest(name) for name in store.names}
    return {(name,): max(0, job.now_ms - one.received_at_ms) / 1000 for name, one in received.items() if one}


def _lag_records(job: JobSample) -> Values:
    return {
        (name,): max(0, one.high_watermark - 1 - one.last_offset)
        for name, one in job.statuses.items()
        if one.high_watermark is not None and one.last_offset is not None
    }


def _lag_s(job: JobSample) -> Values:
    times = {name: one.newest_timestamp_ms for name, one in job.statuses.items()}
    return {(name,): (job.now_ms - at_ms) / 1000 for name, at_ms in times.items() if at_ms is not None}


GATHER_METRICS: tuple[MetricSpec[JobSample], ...] = (
    MetricSpec(
        name="cluster_configured",
        help="1 for each cluster in the configuration, whether it was observed or not.",
        read=lambda job: dict.fromkeys(((name,) for name in job.sources.store.names), 1),
        labels=(CLUSTER,),
    ),
    MetricSpec(
        name="staleness_seconds",
        help="Time since a leader of this cluster last answered; absent if none ever did.",
        read=_staleness,
        labels=(CLUSTER,),
    ),
    MetricSpec(
        name="status_age_seconds",
        help="Time since a micro-batch last evaluated this cluster.",
        read=_status_age,
        labels=(CLUSTER,),
    ),
    MetricSpec(
        name="log_lag_records",
        help="Committed records that are not applied yet.",
        read=_lag_records,
        labels=(CLUSTER,),
    ),
    MetricSpec(
        name="log_lag_seconds",
        help="Age of the newest applied record: the monitor's clock minus the record's timestamp, so it includes any "
        "clock difference. An idle log gets a record twice a second.",
        read=_lag_s,
        labels=(CLUSTER,),
    ),
    MetricSpec(
        name="gatherer_up",
        help="1 while the gatherer process runs.",
        read=lambda job: job.sources.gatherer_runs(),
    ),
    MetricSpec(
        name="gatherer_cpu_seconds_total",
        help="CPU time of the gatherer.",
        read=_of_gatherer("cpu_s"),
        kind=MetricKind.COUNTER,
    ),
    MetricSpec(
        name="gatherer_resident_memory_bytes",
        help="Resident memory of the gatherer.",
        read=_of_gatherer("rss_bytes"),
    ),
    MetricSpec(
        name="gatherer_loop_stall_seconds",
        help="Longest time in the last minute for which the event loop of the gatherer, which serves all clusters, did "
        "not run; it also grows while the loop is frozen. Above 5 s /healthz fails.",
        read=_loop_stall,
    ),
    MetricSpec(
        name="gathered_rows_total",
        help="Observations that were written to the journal.",
        read=_of_gatherer("rows"),
        kind=MetricKind.COUNTER,
    ),
    MetricSpec(
        name="gather_requests_total",
        help="Requests that were sent to the nodes of a cluster.",
        read=_requests,
        labels=(CLUSTER,),
        kind=MetricKind.COUNTER,
    ),
    MetricSpec(
        name="gather_errors_total",
        help="Failed observations, by data source and reason.",
        read=_errors,
        labels=(CLUSTER, "source", "reason"),
        kind=MetricKind.COUNTER,
    ),
)
