"""/metrics, /healthz and /readyz of the relay: whether it gathers, and whether the topic accepts its rows."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from flask import Blueprint, Response, request
from flask.typing import ResponseReturnValue
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from connectors.gather.loop_heartbeat import STALLED_S
from connectors.relay.forwarder import ForwardCounts
from streaming.metrics.metric_spec import CLUSTER, MetricKind, MetricSpec, family


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySources:
    """Where the metrics of a running relay are read from."""

    clusters: tuple[str, ...]
    counts: ForwardCounts
    waiting_rows: Callable[[], int]
    dropped_rows: Callable[[], int]
    restated: Callable[[], int]
    writes: Callable[[], Collection[str]]
    stands_by: Callable[[], Collection[str]]
    takeovers: Callable[[], int]
    gatherer_runs: Callable[[], bool]
    gatherer_stalled_s: Callable[[], float | None]


def _acknowledged_age(relay: RelaySources) -> float | None:
    at = relay.counts.acknowledged_at
    return None if at is None else time.monotonic() - at


RELAY_METRICS: tuple[MetricSpec[RelaySources], ...] = (
    MetricSpec(
        name="relay_cluster",
        help="1 for each cluster that this relay gathers.",
        read=lambda relay: dict.fromkeys(((name,) for name in relay.clusters), 1),
        labels=(CLUSTER,),
    ),
    MetricSpec(
        name="relay_writes_cluster",
        help="1 for each cluster whose rows this relay writes, 0 while another relay writes them.",
        read=lambda relay: {(name,): name in relay.writes() for name in relay.clusters},
        labels=(CLUSTER,),
    ),
    MetricSpec(
        name="relay_takeovers_total",
        help="How often this relay took over a cluster that another relay wrote.",
        read=lambda relay: relay.takeovers(),
        kind=MetricKind.COUNTER,
    ),
    MetricSpec(name="relay_gatherer_up", help="1 while the gatherer runs.", read=lambda relay: relay.gatherer_runs()),
    MetricSpec(
        name="relay_failing",
        help="1 while the topic does not accept rows: /healthz and the log have the reason.",
        read=lambda relay: relay.counts.failing is not None,
    ),
    MetricSpec(
        name="relay_acknowledged_rows_total",
        help="Rows of this relay that the topic has.",
        read=lambda relay: relay.counts.rows,
        kind=MetricKind.COUNTER,
    ),
    MetricSpec(
        name="relay_acknowledged_bytes_total",
        help="The same in bytes of payload, before compression.",
        read=lambda relay: relay.counts.payload_bytes,
        kind=MetricKind.COUNTER,
    ),
    MetricSpec(
        name="relay_acknowledged_age_seconds",
        help="Time since the newest acknowledgement; absent before the first one.",
        read=_acknowledged_age,
    ),
    MetricSpec(
        name="relay_waiting_rows",
        help="Rows in the relay's folder that the topic may not have, of this relay or another one.",
        read=lambda relay: relay.waiting_rows(),
    ),
    MetricSpec(
        name="relay_dropped_rows_total",
        help="Rows that were given up because more than buffer_bytes waited.",
        read=lambda relay: relay.dropped_rows(),
        kind=MetricKind.COUNTER,
    ),
    MetricSpec(
        name="relay_restated_total",
        help="How often the metadata logs were read again from their start.",
        read=lambda relay: relay.restated(),
        kind=MetricKind.COUNTER,
    ),
    MetricSpec(
        name="relay_errors_total",
        help="How often the connection to the topic failed and was opened again.",
        read=lambda relay: relay.counts.errors,
        kind=MetricKind.COUNTER,
    ),
)


class RelayCollector(Collector):
    """Reads every value at each scrape."""

    def __init__(self, sources: RelaySources) -> None:
        self._sources = sources

    def describe(self) -> Iterable[Metric]:
        """Yields every metric without values."""
        yield from (family(spec, (), []) for spec in RELAY_METRICS)

    def collect(self) -> Iterator[Metric]:
        """Yields every metric with its known values."""
        yield from (family(spec, [((), self._sources)], []) for spec in RELAY_METRICS)


def relay_endpoints(sources: RelaySources) -> Blueprint:
    """Returns the relay's paths. /healthz fails for what a restart of the relay may correct: not for the brokers."""
    blueprint = Blueprint("relay", __name__)
    exported = CollectorRegistry()
    exported.register(RelayCollector(sources))

    @blueprint.get("/metrics")
    def scrape() -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(exported), content_type=content_type)

    @blueprint.get("/healthz")
    def healthz() -> ResponseReturnValue:
        stalled_s = sources.gatherer_stalled_s()
        body = {"waiting_rows": sources.waiting_rows(), "failing": sources.counts.failing}
        if not sources.gatherer_runs():
            return {"status": "the gatherer does not run", **body}, 503
        if stalled_s is not None and stalled_s > STALLED_S:
            stall = f"the gatherer's event loop has not run for {stalled_s:.1f} s: no cluster is observed"
            return {"status": stall, **body}, 503
        return {"status": "ok", **body}

    @blueprint.get("/readyz")
    def readyz() -> ResponseReturnValue:
        if sources.counts.acknowledged_at is not None:
            return {"status": "ready"}
        if sources.stands_by():
            return {"status": "ready: another relay writes the rows, and this one stands by"}
        return {"status": "no row is acknowledged yet", "failing": sources.counts.failing}, 503

    return blueprint
