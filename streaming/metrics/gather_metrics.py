"""Metrics about the gatherer: how old the data is, how far the log is read, and which observations fail."""

from collections.abc import Callable

from connectors.gather.gatherer_stats import read_stats
from streaming.metrics.job_metrics import JobSample
from streaming.metrics.metric_spec import CLUSTER, MetricSpec, Values


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
        "cluster_configured",
        "1 for each cluster in the configuration, whether it was observed or not.",
        lambda job: dict.fromkeys(((name,) for name in job.sources.store.names), 1),
        (CLUSTER,),
    ),
    MetricSpec(
        "staleness_seconds",
        "Time since a leader of this cluster last answered; absent if none ever did.",
        _staleness,
        (CLUSTER,),
    ),
    MetricSpec("status_age_seconds", "Time since a micro-batch last evaluated this cluster.", _status_age, (CLUSTER,)),
    MetricSpec("log_lag_records", "Committed records that are not applied yet.", _lag_records, (CLUSTER,)),
    MetricSpec(
        "log_lag_seconds",
        "Age of the newest applied record: the monitor's clock minus the record's timestamp, so it includes any "
        "clock difference. An idle log gets a record twice a second.",
        _lag_s,
        (CLUSTER,),
    ),
    MetricSpec("gatherer_up", "1 while the gatherer process runs.", lambda job: job.sources.gatherer_runs()),
    MetricSpec("gatherer_cpu_seconds_total", "CPU time of the gatherer.", _of_gatherer("cpu_s")),
    MetricSpec("gatherer_resident_memory_bytes", "Resident memory of the gatherer.", _of_gatherer("rss_bytes")),
    MetricSpec(
        "gatherer_loop_stall_seconds",
        "Longest time in the last minute for which the event loop of the gatherer, which serves all clusters, did "
        "not run; it also grows while the loop is frozen. Above 5 s /healthz fails.",
        _loop_stall,
    ),
    MetricSpec("gathered_rows_total", "Observations that were written to the journal.", _of_gatherer("rows")),
    MetricSpec("gather_requests_total", "Requests that were sent to the nodes of a cluster.", _requests, (CLUSTER,)),
    MetricSpec(
        "gather_errors_total", "Failed observations, by data source and reason.", _errors, (CLUSTER, "source", "reason")
    ),
)
