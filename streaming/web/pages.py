"""The page: the fleet at a glance, one cluster in full, what each rule means. Read-only.

Everything is drawn here, on the server: the page works without a script, and with one it is asked for again every two
seconds and only what changed is changed. What a page shows is its ETag, so an idle fleet costs a 304.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence

from flask import Blueprint, Response, request
from flask.typing import ResponseReturnValue

from rules.evaluate import RULES
from rules.model.identifiers import Millis
from streaming.status.health import Health
from streaming.web.cluster_page import SPANS_S, drawn, link
from streaming.web.cluster_view import Dossier
from streaming.web.fleet_view import Dossiers
from streaming.web.response_headers import guarded
from streaming.web.templating import asset, draw

ROWS = 200
"""Clusters that get a row; the rest, which is better off, is named."""
DEFAULT_SPAN = "1h"
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def pages(dossiers: Dossiers) -> Blueprint:
    """`/`, `/clusters/NAME` and `/rules`."""
    blueprint = Blueprint("pages", __name__)

    @blueprint.get("/")
    def fleet() -> ResponseReturnValue:
        every = dossiers.all()
        return _page(_fleet(dossiers, every), title=_title(every), path=[("all clusters", None)], dossiers=dossiers)

    @blueprint.get("/clusters/<path:name>")
    def cluster(name: str) -> ResponseReturnValue:
        one = dossiers.of(name)
        if one is None:
            return {"status": "no cluster of that name is watched here"}, 404
        title = f"{one.health.value}: {one.name} · kraftwatch"
        path = [("all clusters", "/"), (one.name, None)]
        return _page(_cluster(one), title=title, path=path, dossiers=dossiers)

    @blueprint.get("/rules", strict_slashes=False)
    def rules() -> ResponseReturnValue:
        path = [("all clusters", "/"), ("rules", None)]
        return _page(draw("rules.html"), title="Rules · kraftwatch", path=path, dossiers=dossiers, live=False)

    @blueprint.get("/rules/<rule>", strict_slashes=False)
    def rule(rule: str) -> ResponseReturnValue:
        if rule not in RULES:
            return {"status": "there is no such rule"}, 404
        path = [("all clusters", "/"), ("rules", "/rules"), (rule, None)]
        main = draw("rule.html", rule=RULES[rule])
        return _page(main, title=f"{rule} · kraftwatch", path=path, dossiers=dossiers, live=False)

    @blueprint.get("/static/<name>")
    def static(name: str) -> ResponseReturnValue:
        if name not in ("kraftwatch.css", "kraftwatch.js", "icon.svg"):
            return {"status": "there is no such file"}, 404
        return Response(asset(name), mimetype=_TYPES[name.rpartition(".")[2]])

    blueprint.after_request(guarded)
    return blueprint


def _fleet(dossiers: Dossiers, every: Sequence[Dossier]) -> str:
    told = dossiers.fleet.told
    q, health = request.args.get("q", "").strip(), request.args.get("health", "")
    found = [one for one in every if _wanted(one, q.lower(), health)]
    counts = Counter(one.health.value for one in every)
    return draw(
        "fleet.html",
        rows=found[:ROWS],
        names=found[ROWS:],
        found=len(found),
        total=len(every),
        counts={each.value: counts[each.value] for each in Health},
        health=health if health in {each.value for each in Health} else "",
        q=q,
        sinks=told.sinks if told else {},
        failing=[name for name, tally in told.sinks.items() if tally.failing] if told else [],
        delivered=told is not None,
        link=link,
    )


def _wanted(one: Dossier, q: str, health: str) -> bool:
    if health and health in {each.value for each in Health} and one.health.value != health:
        return False
    return not q or q in one.name.lower() or any(q in f"{each.rule} {each.subject}".lower() for each in one.firing)


def _cluster(one: Dossier) -> str:
    span, topic = request.args.get("span", DEFAULT_SPAN), request.args.get("topic", "").strip()
    span = span if span in SPANS_S else DEFAULT_SPAN
    return drawn(one, timeline_ms=(Millis(one.now_ms - SPANS_S[span] * 1000), one.now_ms), span=span, topic=topic)


def _title(every: Sequence[Dossier]) -> str:
    counts = Counter(one.health for one in every)
    bad = [f"{counts[health]} {health.value}" for health in [*Health][::-1] if counts[health]]
    return f"{', '.join(bad) or 'no clusters'} · kraftwatch"


def _page(
    main: str, *, title: str, path: Sequence[tuple[str, str | None]], dossiers: Dossiers, live: bool = True
) -> Response:
    etag = hashlib.sha256(main.encode()).hexdigest()[:32]
    now_ms = dossiers.now_ms()
    if live and request.if_none_match.contains(etag):
        response = Response(status=304)
    else:
        shown = {"title": title, "path": path, "main": main, "now_ms": now_ms, "etag": f'"{etag}"', "live": live}
        response = Response(draw("document.html", policy=None, as_of="as of ", **shown), mimetype="text/html")
    response.set_etag(etag)
    response.headers["X-Now"] = str(now_ms)
    return response
