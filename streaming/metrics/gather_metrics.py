"""What /metrics tells of how well kraftwatch sees: how old its view is, how far it has read, and what failed."""

from collections.abc import Callable
from typing import Any

from streaming.metrics.job_metrics import Own
from streaming.metrics.metric import CLUSTER, Kind, Measure, Values


def _gathered(name: str) -> Callable[[Own], Values]:
    def read(own: Own) -> Values:
        value: Values = None if own.stats is None else own.stats[name]
        return value

    return read


def _requests(own: Own) -> Values:
    clusters = {} if own.stats is None else own.stats["clusters"]
    return {(name,): each["requests_sent"] for name, each in clusters.items()}


def _errors(own: Own) -> Values:
    clusters = {} if own.stats is None else own.stats["clusters"]
    return {
        (name, sight, reason): count
        for name, each in clusters.items()
        for sight, reasons in each["unseen"].items()
        for reason, count in reasons.items()
    }


def _staleness(own: Own) -> Values:
    times = {name: _newest(shown["log_seen_at_ms"], shown["described_at_ms"]) for name, shown in own.portraits.items()}
    return {(name,): max(0, own.now_ms - at_ms) / 1000 for name, at_ms in times.items() if at_ms is not None}


def _newest(*times: Any) -> int | None:
    return max((at_ms for at_ms in times if at_ms is not None), default=None)


def _judged(own: Own) -> Values:
    seen = {name: own.sources.fleet.seen(name) for name in own.sources.fleet.names}
    return {(name,): max(0, own.now_ms - one.received_at_ms) / 1000 for name, one in seen.items() if one is not None}


def _lag_records(own: Own) -> Values:
    pairs = {name: (shown["high_watermark"], shown["last_offset"]) for name, shown in own.portraits.items()}
    return {(name,): max(0, mark - 1 - last) for name, (mark, last) in pairs.items() if None not in (mark, last)}


def _lag_s(own: Own) -> Values:
    times = {name: shown["newest_timestamp_ms"] for name, shown in own.portraits.items()}
    return {(name,): (own.now_ms - at_ms) / 1000 for name, at_ms in times.items() if at_ms is not None}


SIGHT: tuple[Measure[Own], ...] = (
    Measure(
        name="cluster_configured",
        words="1 for each cluster of the configuration, seen or not.",
        read=lambda own: dict.fromkeys(((name,) for name in own.sources.fleet.names), 1),
        labels=(CLUSTER,),
    ),
    Measure(
        name="staleness_seconds",
        words="How long ago a leader of this cluster last answered us; absent while none ever did.",
        read=_staleness,
        labels=(CLUSTER,),
    ),
    Measure(
        name="portrait_age_seconds",
        words="How long ago a micro-batch last judged this cluster.",
        read=_judged,
        labels=(CLUSTER,),
    ),
    Measure(
        name="log_lag_records",
        words="Committed records that were not applied yet.",
        read=_lag_records,
        labels=(CLUSTER,),
    ),
    Measure(
        name="log_lag_seconds",
        words="Age of the newest applied record: our clock less the log's, so clocks that differ are in it. "
        "An idle log grows twice a second.",
        read=_lag_s,
        labels=(CLUSTER,),
    ),
    Measure(
        name="gatherer_up",
        words="1 while the gatherer's process runs.",
        read=lambda own: own.sources.gathers(),
    ),
    Measure(
        name="gatherer_cpu_seconds_total",
        words="CPU that the gatherer used.",
        read=_gathered("cpu_s"),
        kind=Kind.COUNTER,
    ),
    Measure(
        name="gatherer_resident_memory_bytes",
        words="Memory of the gatherer.",
        read=_gathered("rss_bytes"),
    ),
    Measure(
        name="gathered_rows_total",
        words="Observations that were recorded.",
        read=_gathered("rows"),
        kind=Kind.COUNTER,
    ),
    Measure(
        name="gather_requests_total",
        words="Requests that were sent to the nodes of a cluster.",
        read=_requests,
        labels=(CLUSTER,),
        kind=Kind.COUNTER,
    ),
    Measure(
        name="gather_errors_total",
        words="Looks that failed, by what was to be seen and why not.",
        read=_errors,
        labels=(CLUSTER, "sight", "reason"),
        kind=Kind.COUNTER,
    ),
)
