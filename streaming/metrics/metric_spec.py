"""A metric's name and HELP text, and how its values are read, of one cluster or of the job."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from flask import Blueprint, Response, request
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from streaming.metrics.rates import Rates, node_of
from streaming.status.cluster_status import ClusterStatus, StatusSource
from streaming.status.voters import ReplicaRole, ReplicaStatus

PREFIX = "kraftwatch_"
CLUSTER = "cluster"

Values: TypeAlias = Mapping[tuple[str, ...], float | int | bool | None] | float | int | bool | None
"""By the values of the metric's own labels, in their order; a bare number where it has none. None: unknown."""
SampleT = TypeVar("SampleT")
POLLED_MS = 10_000
"""An older poll does not describe the present (as `ages.poll` of the rules)."""
NODE = ("node_id", "directory_id")
REPLICA = (*NODE, "role")


@dataclass(frozen=True, slots=True)
class MetricSpec(Generic[SampleT]):
    """One metric: a row of the tables of metrics. An unknown value is left out; it is never 0."""

    name: str
    """Without the prefix; units are seconds and bytes. That of a counter, which only grows, ends in `_total`."""
    help: str
    """The HELP text, on one line."""
    read: Callable[[SampleT], Values]
    labels: tuple[str, ...] = ()
    """Its own labels, without `cluster`."""

    @property
    def full_name(self) -> str:
        """The name in Prometheus."""
        return PREFIX + self.name


def family(
    spec: MetricSpec[SampleT], samples: Iterable[tuple[Sequence[str], SampleT]], labels: Sequence[str]
) -> Metric:
    """Returns the metric with every known value of the samples, each with the values of `labels`: `cluster` or none."""
    form = CounterMetricFamily if spec.name.endswith("_total") else GaugeMetricFamily
    made = form(spec.full_name, spec.help, labels=[*labels, *spec.labels])
    for leading, sample in samples:
        values = spec.read(sample)
        for own, value in (values if isinstance(values, Mapping) else {(): values}).items():
            if value is not None:
                made.add_metric([*leading, *own], float(value))
    return made


class _TableCollector(Collector):
    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        """Yields every metric with its known values."""
        return self._collect()


def registry(collect: Callable[[], Iterable[Metric]], *more: Collector) -> CollectorRegistry:
    """Returns a registry without the process-wide default metrics; `collect` is called at each scrape."""
    made = CollectorRegistry()
    for collector in (_TableCollector(collect), *more):
        made.register(collector)
    return made


def metrics_endpoint(exported: CollectorRegistry) -> Blueprint:
    """Returns /metrics in the requested format: Prometheus' text format or OpenMetrics."""
    blueprint = Blueprint("metrics", __name__)

    @blueprint.get("/metrics")
    def scrape() -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(exported), content_type=content_type)

    return blueprint


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSample:
    """One cluster's newest status."""

    status: ClusterStatus
    rates: Rates

    @property
    def polled(self) -> bool:
        """Whether DescribeQuorum is answered now."""
        described_at_ms = self.status.described_at_ms
        return described_at_ms is not None and self.status.now_ms - described_at_ms <= POLLED_MS

    @property
    def live(self) -> bool:
        """Whether a leader answers now."""
        return self.status.source is StatusSource.LIVE


Read: TypeAlias = Callable[[ClusterSample], Values]


def value(of: Callable[[ClusterStatus], float | int | bool | None]) -> Read:
    """Reads one number of the status."""
    return lambda sample: of(sample.status)


def while_polled(read: Read) -> Read:
    """Reads while polls are answered."""
    return lambda sample: read(sample) if sample.polled else None


def of_replicas(of: Callable[[ReplicaStatus], int | None], *, divisor: float = 1) -> Read:
    """Reads a number of each row of DescribeQuorum, divided by `divisor`, while polls are answered."""
    return while_polled(
        lambda sample: {
            (*node_of(row), role(row)): number / divisor
            for row in sample.status.replicas
            if (number := of(row)) is not None
        }
    )


def counted(labels: Callable[[ClusterStatus], Iterable[tuple[str, ...]]]) -> Read:
    """Reads how often each combination of label values occurs."""
    return lambda sample: Counter(labels(sample.status))


def role(row: ReplicaStatus) -> str:
    """Returns `voter` or `observer`: an election changes neither."""
    return "observer" if row.status is ReplicaRole.OBSERVER else "voter"
