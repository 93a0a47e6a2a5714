"""/metrics for Prometheus: the newest status of every cluster, and kraftwatch's own state."""

from collections.abc import Iterable, Iterator

from flask import Blueprint, Response, request
from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from streaming.metrics.gather_metrics import GATHER_METRICS
from streaming.metrics.job_metrics import JOB_METRICS, NOTIFICATION_METRICS, JobSample, JobSources
from streaming.metrics.kip_metrics import KIP_METRICS
from streaming.metrics.metric_spec import CLUSTER, ClusterSample, family
from streaming.metrics.quorum_metrics import QUORUM_METRICS
from streaming.metrics.rates import Rates

CLUSTER_METRICS = (*KIP_METRICS, *QUORUM_METRICS)
OWN_METRICS = (*JOB_METRICS, *GATHER_METRICS, *NOTIFICATION_METRICS)
# The `_created` series that prometheus_client adds to counters and histograms are not used.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has types but for this

STATUS_MAX_AGE_MS = 60_000
"""A cluster with an older status loses its metrics; `staleness_seconds` stays."""


class JobCollector(Collector):
    """Reads every value at each scrape; keeps nothing between two scrapes."""

    def __init__(self, sources: JobSources) -> None:
        self._sources = sources

    def describe(self) -> Iterable[Metric]:
        """Yields every metric without values."""
        yield from (family(spec, (), [CLUSTER]) for spec in CLUSTER_METRICS)
        yield from (family(spec, (), []) for spec in OWN_METRICS)

    def collect(self) -> Iterator[Metric]:
        """Yields every metric with its known values."""
        job = JobSample.of(self._sources)
        store = self._sources.store
        clusters = [
            ([name], ClusterSample(status=newest.status, rates=job.totals.rates.get(name, Rates())))
            for name in store.names
            if (newest := store.newest(name)) is not None and job.now_ms - newest.received_at_ms <= STATUS_MAX_AGE_MS
        ]
        yield from (family(spec, clusters, [CLUSTER]) for spec in CLUSTER_METRICS)
        yield from (family(spec, [((), job)], []) for spec in OWN_METRICS)


def registry(sources: JobSources) -> CollectorRegistry:
    """Returns a registry of every metric, without the process-wide default metrics."""
    made = CollectorRegistry()
    made.register(JobCollector(sources))
    made.register(sources.batch_stats.durations)
    return made


def metrics(sources: JobSources) -> Blueprint:
    """Returns the blueprint of /metrics, in the requested format: Prometheus' text format or OpenMetrics."""
    blueprint = Blueprint("metrics", __name__)
    exported = registry(sources)

    @blueprint.get("/metrics")
    def scrape() -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(exported), content_type=content_type)

    return blueprint
