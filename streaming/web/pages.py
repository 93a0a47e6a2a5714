"""The page: all clusters, one cluster, and what each rule means.

The server renders everything, so the page works without a script. With the script the browser requests it every two
seconds and changes only what differs. The ETag is a digest of the content: an unchanged page costs a 304. With the
parameter `at` a cluster's page shows a past state, and is not requested again.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence

from flask import Blueprint, Response, g, request
from flask.typing import ResponseReturnValue

from connectors.errors import UsageError
from rules.evaluate import ALL_RULES
from rules.formatting import utc_text
from rules.model.identifiers import Millis
from streaming.status.health import Health
from streaming.web.application import add_response_headers
from streaming.web.cluster_view import ClusterView
from streaming.web.fleet_view import NO_CLUSTER, FleetView
from streaming.web.page_access import Permission
from streaming.web.past_states import ReplayingError
from streaming.web.templating import SPANS_S, asset, link, render, render_cluster
from streaming.web.timeline import timeline_window

ROW_LIMIT = 200
"""Clusters that get a row; the others, whose health is better, are listed by name."""
DEFAULT_SPAN = "1h"
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def pages(view: FleetView) -> Blueprint:
    """Returns `/`, `/clusters/NAME`, `/rules` and `/rules/RULE`."""
    blueprint = Blueprint("pages", __name__)

    @blueprint.get("/")
    def fleet() -> ResponseReturnValue:
        every = view.all()
        return _page(_fleet(view, every), title=_title(every), view=view)

    @blueprint.get("/clusters/<path:name>")
    def cluster(name: str) -> ResponseReturnValue:
        return _cluster(view, name)

    @blueprint.get("/rules", strict_slashes=False)
    def rules() -> ResponseReturnValue:
        return _page(render("rules.html"), title="Rules · kraftwatch", path=("rules",), view=view, live=False)

    @blueprint.get("/rules/<rule>", strict_slashes=False)
    def rule(rule: str) -> ResponseReturnValue:
        if rule not in ALL_RULES:
            return {"status": "there is no such rule"}, 404
        main = render("rule.html", rule=ALL_RULES[rule])
        return _page(main, title=f"{rule} · kraftwatch", path=("rules", rule), view=view, live=False)

    @blueprint.get("/static/<name>")
    def static(name: str) -> ResponseReturnValue:
        if name not in ("kraftwatch.css", "kraftwatch.js", "icon.svg"):
            return {"status": "there is no such file"}, 404
        return Response(asset(name), mimetype=_TYPES[name.rpartition(".")[2]])

    blueprint.after_request(add_response_headers)
    return blueprint


def _fleet(view: FleetView, every: Sequence[ClusterView]) -> str:
    delivery = view.store.delivery
    q, health = request.args.get("q", "").strip(), request.args.get("health", "")
    health = health if health in {each.value for each in Health} else ""
    found = [one for one in every if _matches(one, q.lower(), health)]
    counts = Counter(one.health.value for one in every)
    return render(
        "fleet.html",
        rows=found[:ROW_LIMIT],
        names=found[ROW_LIMIT:],
        found=len(found),
        total=len(every),
        counts={each.value: counts[each.value] for each in Health},
        health=health,
        q=q,
        sinks=delivery.sinks if delivery else {},
        missing=view.missing(),
        now_ms=view.now_ms(),
        understudy_ms=view.store.understudy_since_ms,
        failing=[name for name, result in delivery.sinks.items() if result.failing] if delivery else [],
        delivered=delivery is not None,
        link=link,
    )


def _matches(one: ClusterView, q: str, health: str) -> bool:
    if health not in ("", one.health.value):
        return False
    return not q or q in one.name.lower() or any(q in f"{alert.rule} {alert.subject}".lower() for alert in one.firing)


def _cluster(view: FleetView, name: str) -> ResponseReturnValue:
    """Returns the page of one cluster; while a past state is replayed, or if there is none, a page that says so."""
    try:
        found = view.requested(name)
    except UsageError as problem:
        return _no_past_state(view, name, f"There is no past state: {problem}"), 400
    except ReplayingError as problem:
        headers = {"Retry-After": "1", "X-Progress": str(problem.progress)}
        return _no_past_state(view, name, str(problem), replaying=True), 202, headers
    if found is None:
        return NO_CLUSTER, 404
    one, on_timeline, at_ms = found
    main = render_cluster(
        one,
        timeline_ms=timeline_window(SPANS_S[_span()] * 1000, on_timeline.now_ms, at_ms),
        span=_span(),
        topic=request.args.get("topic", "").strip(),
        on_timeline=on_timeline,
        held=None if view.past is None else view.past.span(),
        at_ms=at_ms,
        changeable=view.changeable and at_ms is None and g.get("permission", Permission.CHANGE) is Permission.CHANGE,
    )
    when = "" if at_ms is None else f" at {utc_text(at_ms)}"
    title = f"{one.health.value}{when}: {name} · kraftwatch"
    return _page(main, title=title, path=(name,), view=view, live=at_ms is None, past=at_ms is not None, at_ms=at_ms)


def _no_past_state(view: FleetView, name: str, reason: str, *, replaying: bool = False) -> Response:
    back = f"{link(name)}?span={_span()}"
    main = render("no_past_state.html", name=name, reason=reason, replaying=replaying, back=back)
    return _page(main, title=f"{name} · kraftwatch", path=(name,), view=view, live=False, past=replaying)


def _span() -> str:
    span = request.args.get("span", DEFAULT_SPAN)
    return span if span in SPANS_S else DEFAULT_SPAN


def _title(every: Sequence[ClusterView]) -> str:
    counts = Counter(view.health for view in every)
    parts = [f"{counts[health]} {health.value}" for health in [*Health][::-1] if counts[health]]
    return f"{', '.join(parts) or 'no clusters'} · kraftwatch"


def _page(
    main: str,
    *,
    title: str,
    view: FleetView,
    path: Sequence[str] = (),
    live: bool = True,
    past: bool = False,
    at_ms: Millis | None = None,
) -> Response:
    """Returns the document; `path` names the pages from that of all clusters down to this one."""
    etag = hashlib.sha256(main.encode()).hexdigest()[:32]
    now_ms = view.now_ms() if at_ms is None else at_ms
    if live and request.if_none_match.contains(etag):
        response = Response(status=304)
    else:
        links = zip(("all clusters", *path), (*("/", "/rules")[: len(path)], None), strict=True)
        values = {"title": title, "path": links, "main": main, "now_ms": now_ms, "etag": f'"{etag}"', "live": live}
        page = render("document.html", policy=None, as_of="as of ", past=past, **values)
        response = Response(page, mimetype="text/html")
    response.set_etag(etag)
    response.headers["X-Now"] = str(now_ms)
    return response
