"""/metrics for Prometheus: every cluster as it was last shown, and kraftwatch's own health."""

from collections.abc import Iterable, Iterator

from flask import Blueprint, Response, request
from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from streaming.metrics.gather_metrics import SIGHT
from streaming.metrics.job_metrics import WORK, Own, Sources
from streaming.metrics.kip_metrics import OF_KIPS
from streaming.metrics.metric import CLUSTER, family
from streaming.metrics.notification_metrics import TELLING
from streaming.metrics.quorum_metrics import BEYOND
from streaming.metrics.rates import Pace
from streaming.metrics.readers import Shown

OF_QUORUMS = (*OF_KIPS, *BEYOND)
OWN = (*WORK, *SIGHT, *TELLING)
# When a histogram was made is of no use to anybody.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has types but for this

SHOWN_MS = 60_000
"""A portrait that is older is no longer true of now: the cluster's metrics go, and `staleness_seconds` stays."""


class Fleetwide(Collector):
    """Reads everything anew at each scrape; nothing is kept between two."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def describe(self) -> Iterable[Metric]:
        """Every metric that there can be, without values."""
        yield from (family(measure, (), [CLUSTER]) for measure in OF_QUORUMS)
        yield from (family(measure, (), []) for measure in OWN)

    def collect(self) -> Iterator[Metric]:
        """Every metric that is known now."""
        own = Own.of(self._sources)
        fleet = self._sources.fleet
        shown = [
            ([name], Shown(portrait=seen.portrait, pace=own.noted.paces.get(name, Pace())))
            for name in fleet.names
            if (seen := fleet.seen(name)) is not None and own.now_ms - seen.received_at_ms <= SHOWN_MS
        ]
        yield from (family(measure, shown, [CLUSTER]) for measure in OF_QUORUMS)
        yield from (family(measure, [((), own)], []) for measure in OWN)


def registry(sources: Sources) -> CollectorRegistry:
    """Everything that /metrics tells, and nothing of the process-wide default."""
    made = CollectorRegistry()
    made.register(Fleetwide(sources))
    made.register(sources.witness.durations)
    return made


def metrics(sources: Sources) -> Blueprint:
    """The page, in the format that is asked for: Prometheus' text, or OpenMetrics."""
    pages = Blueprint("metrics", __name__)
    told = registry(sources)

    @pages.get("/metrics")
    def scrape() -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(told), content_type=content_type)

    return pages
