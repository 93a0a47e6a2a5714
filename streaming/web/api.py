"""`/api/clusters` and `/api/clusters/NAME`: what the page shows, as JSON. Programs rely on the names of its fields."""

from collections import Counter

from flask import Blueprint
from flask.typing import ResponseReturnValue

from rules.finding import Plain
from streaming.status.health import Health
from streaming.web.fleet_view import Dossiers
from streaming.web.response_headers import guarded


def api(dossiers: Dossiers) -> Blueprint:
    """The two paths."""
    blueprint = Blueprint("api", __name__)

    @blueprint.get("/api/clusters")
    def clusters() -> ResponseReturnValue:
        return fleet_object(dossiers)

    @blueprint.get("/api/clusters/<path:name>")
    def cluster(name: str) -> ResponseReturnValue:
        one = dossiers.of(name)
        return ({"status": "no cluster of that name is watched here"}, 404) if one is None else one.to_object()

    blueprint.after_request(guarded)
    return blueprint


def fleet_object(dossiers: Dossiers) -> dict[str, Plain]:
    """`/api/clusters`.

    Fields: now_ms (the job's clock); counts (of clusters, by health); clusters (see `Dossier.to_row`), the worst
    first; delivered_at_ms (the newest delivery; null before the first); sinks, each with name, pending (alerts still
    to be told), silenced, failing (why, or null).
    """
    every, told = dossiers.all(), dossiers.fleet.told
    counts = Counter(one.health for one in every)
    return {
        "now_ms": dossiers.now_ms(),
        "counts": {health.value: counts[health] for health in Health},
        "clusters": [one.to_row() for one in every],
        "delivered_at_ms": told.at_ms if told else None,
        "sinks": [
            {"name": name, "pending": one.pending, "silenced": one.silenced, "failing": one.failing}
            for name, one in (told.sinks.items() if told else ())
        ],
    }
