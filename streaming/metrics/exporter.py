"""/metrics for Prometheus: the newest status of every cluster, and kraftwatch's own state."""

from collections.abc import Iterator

from flask import Blueprint
from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.core import Metric

from streaming.metrics.job_metrics import GATHER_METRICS, JOB_METRICS, NOTIFICATION_METRICS, JobSample, JobSources
from streaming.metrics.metric_spec import CLUSTER, ClusterSample, add_endpoint, family, registry
from streaming.metrics.quorum_metrics import KIP_METRICS, QUORUM_METRICS
from streaming.metrics.rates import Rates

CLUSTER_METRICS = (*KIP_METRICS, *QUORUM_METRICS)
OWN_METRICS = (*JOB_METRICS, *GATHER_METRICS, *NOTIFICATION_METRICS)
# The `_created` series that prometheus_client adds to counters and histograms are not used.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has types but for this

STATUS_MAX_AGE_MS = 60_000
"""A cluster with an older status loses its metrics; `staleness_seconds` stays."""


def job_registry(sources: JobSources) -> CollectorRegistry:
    """Returns a registry of every metric of the job."""

    def collect() -> Iterator[Metric]:
        job, store = JobSample.of(sources), sources.store
        clusters = [
            ([name], ClusterSample(status=newest.status, rates=job.totals.rates.get(name, Rates())))
            for name in store.names
            if (newest := store.newest(name)) is not None and job.now_ms - newest.received_at_ms <= STATUS_MAX_AGE_MS
        ]
        yield from (family(spec, clusters, [CLUSTER]) for spec in CLUSTER_METRICS)
        yield from (family(spec, [((), job)], []) for spec in OWN_METRICS)

    return registry(collect, sources.batch_stats.durations)


def metrics(sources: JobSources) -> Blueprint:
    """Returns the blueprint of /metrics."""
    blueprint = Blueprint("metrics", __name__)
    add_endpoint(blueprint, job_registry(sources))
    return blueprint
