"""`/api/clusters` and `/api/clusters/NAME`: what the page shows, as JSON. Programs rely on the names of its fields.

`/api/clusters/NAME?at=TIME` answers the same fields as of a past time, replayed from the journal.
"""

from collections import Counter

from flask import Blueprint
from flask.typing import ResponseReturnValue

from rules.finding import Plain
from streaming.status.health import Health
from streaming.web.application import add_response_headers
from streaming.web.fleet_view import FleetView, answer_or_refusal, requested_time


def api(view: FleetView) -> Blueprint:
    """Returns the two paths."""
    blueprint = Blueprint("api", __name__)

    @blueprint.get("/api/clusters")
    def clusters() -> ResponseReturnValue:
        return fleet_json(view)

    @blueprint.get("/api/clusters/<path:name>")
    def cluster(name: str) -> ResponseReturnValue:
        def answer() -> ResponseReturnValue:
            at_ms = requested_time()
            if at_ms is None:
                one = view.of(name)
            else:
                found = view.at(name, at_ms)
                one = None if found is None else found[0]
            return ({"status": "no cluster of that name is configured"}, 404) if one is None else one.to_json()

        return answer_or_refusal(answer)

    blueprint.after_request(add_response_headers)
    return blueprint


def fleet_json(view: FleetView) -> dict[str, Plain]:
    """Returns the fields of `/api/clusters`.

    Fields: now_ms (the job's clock); counts (of clusters, by health); clusters (see `ClusterView.row_json`), worst
    first; delivered_at_ms (the newest delivery; null before the first one); sinks, each with name, pending (alerts
    not delivered yet), silenced, failing (the reason, or null), set_aside (notifications that the sink does not accept
    while it accepts others).
    """
    every, delivery = view.all(), view.store.delivery
    counts = Counter(one.health for one in every)
    return {
        "now_ms": view.now_ms(),
        "counts": {health.value: counts[health] for health in Health},
        "clusters": [one.row_json() for one in every],
        "delivered_at_ms": delivery.at_ms if delivery else None,
        "sinks": [
            {
                "name": name,
                "pending": one.pending,
                "silenced": one.silenced,
                "failing": one.failing,
                "set_aside": one.set_aside,
            }
            for name, one in (delivery.sinks.items() if delivery else ())
        ],
    }
