"""/metrics, /healthz and /readyz of the relay: whether it gathers, and whether the topic accepts its rows."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from flask import Blueprint
from flask.typing import ResponseReturnValue
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from connectors.gather.gatherer_stats import gatherer_problem
from connectors.relay.forwarder import Forwarder
from streaming.metrics.metric_spec import CLUSTER, MetricSpec, family, registry


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayNow:
    """A running relay at one time."""

    clusters: tuple[str, ...]
    forwarder: Forwarder
    dropped_rows: int
    restated: int
    gatherer_runs: bool
    gatherer_stalled_s: float | None


def _acknowledged_age(relay: RelayNow) -> float | None:
    at = relay.forwarder.counts.acknowledged_at
    return None if at is None else time.monotonic() - at


RELAY_METRICS: tuple[MetricSpec[RelayNow], ...] = (
    MetricSpec(
        "relay_cluster",
        "1 for each cluster that this relay gathers.",
        lambda relay: dict.fromkeys(((name,) for name in relay.clusters), 1),
        (CLUSTER,),
    ),
    MetricSpec(
        "relay_writes_cluster",
        "1 for each cluster whose rows this relay writes, 0 while another relay writes them.",
        lambda relay: {(name,): name in relay.forwarder.written for name in relay.clusters},
        (CLUSTER,),
    ),
    MetricSpec(
        "relay_takeovers_total",
        "How often this relay took over a cluster that another relay wrote.",
        lambda relay: relay.forwarder.counts.takeovers,
    ),
    MetricSpec("relay_gatherer_up", "1 while the gatherer runs.", lambda relay: relay.gatherer_runs),
    MetricSpec(
        "relay_failing",
        "1 while the topic does not accept rows: /healthz and the log have the reason.",
        lambda relay: relay.forwarder.counts.failing is not None,
    ),
    MetricSpec(
        "relay_acknowledged_rows_total",
        "Rows of this relay that the topic has.",
        lambda relay: relay.forwarder.counts.rows,
    ),
    MetricSpec(
        "relay_acknowledged_bytes_total",
        "The same in bytes of payload, before compression.",
        lambda relay: relay.forwarder.counts.payload_bytes,
    ),
    MetricSpec(
        "relay_acknowledged_age_seconds",
        "Time since the newest acknowledgement; absent before the first one.",
        _acknowledged_age,
    ),
    MetricSpec(
        "relay_waiting_rows",
        "Rows in the relay's folder that the topic may not have, of this relay or another one.",
        lambda relay: relay.forwarder.waiting_rows,
    ),
    MetricSpec(
        "relay_dropped_rows_total",
        "Rows that were given up because more than 1 GiB waited.",
        lambda relay: relay.dropped_rows,
    ),
    MetricSpec(
        "relay_restated_total",
        "How often the metadata logs were read again from their start.",
        lambda relay: relay.restated,
    ),
    MetricSpec(
        "relay_errors_total",
        "How often the connection to the topic failed and was opened again.",
        lambda relay: relay.forwarder.counts.errors,
    ),
)


def relay_registry(read: Callable[[], RelayNow]) -> CollectorRegistry:
    """Returns a registry of every metric of the relay, which is read at each scrape."""

    def collect() -> Iterator[Metric]:
        relay = read()
        return (family(spec, [((), relay)], []) for spec in RELAY_METRICS)

    return registry(collect)


def relay_health(read: Callable[[], RelayNow]) -> Blueprint:
    """Returns the paths of health. /healthz fails for what a restart of the relay may correct: not for the brokers."""
    blueprint = Blueprint("relay", __name__)

    @blueprint.get("/healthz")
    def healthz() -> ResponseReturnValue:
        relay = read()
        problem = gatherer_problem(runs=relay.gatherer_runs, stalled_s=relay.gatherer_stalled_s)
        counts = {"waiting_rows": relay.forwarder.waiting_rows, "failing": relay.forwarder.counts.failing}
        return {"status": problem or "ok", **counts}, 200 if problem is None else 503

    @blueprint.get("/readyz")
    def readyz() -> ResponseReturnValue:
        forwarder = read().forwarder
        if forwarder.stands_by and not forwarder.written:
            return {"status": "ready: another relay writes the rows, and this one stands by"}
        if forwarder.counts.acknowledged_at is not None:
            return {"status": "ready"}
        return {"status": "no row is acknowledged yet", "failing": forwarder.counts.failing}, 503

    return blueprint
