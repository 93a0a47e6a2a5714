"""Renders the templates of the page and of a report, such as one cluster, and formats the values in them.

Names come from clusters, and anyone who may create a topic chooses its name: every value is escaped, and characters
that hide or reverse text are written as escapes.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from rules.evaluate import ALL_RULES
from rules.evidence_text import evidence_lines
from rules.formatting import duration, iso, late_text, utc_text, visible
from rules.model.identifiers import Millis
from rules.rule_page import default_of, inhibition_of, page_of, times_of
from streaming.status.cluster_status import RecoveringPartition
from streaming.status.event_history import voter_change_text
from streaming.web.cluster_view import ClusterView
from streaming.web.timeline import time_control, timeline

_SOFT_BREAK = re.compile(r"(?<!\n)\n(?!\n|- |\d+\. ) *")
_CODE = re.compile(r"`([^`\n]+)`")
_FIELD = re.compile(r" *[a-z][a-z0-9_]*")
_STATIC = files("streaming.web") / "static"
SPANS_S: Mapping[str, int] = {"15m": 900, "1h": 3_600, "6h": 21_600, "24h": 86_400, "7d": 604_800}
"""The spans of a timeline, by the label of their link."""
LIMITS: Mapping[str, int] = {"alerts_shown": 10, "alerts_listed": 200, "replicas_shown": 100, "partitions_shown": 100}


def render(template: str, **values: Any) -> Markup:
    """Returns a template's HTML; another template may insert it as it is."""
    return Markup(_environment().get_template(template).render(**values))  # noqa: S704 - autoescape made it


@cache
def asset(name: str) -> str:
    """Returns the text of a style sheet, script or icon in `static`."""
    return (_STATIC / name).read_text(encoding="utf-8")


def inline(text: str) -> Markup:
    """Returns a style sheet or script as it is inserted into a document: unchanged, so that its digest is right."""
    return Markup(text)  # noqa: S704 - a file of the package, no input


def digest(text: str) -> str:
    """Returns the digest that a Content-Security-Policy uses for an inline style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("streaming.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.filters.update(
        ago=lambda ms: "unknown" if ms is None else duration(max(0, ms)),
        iso=iso,
        prose=_prose,
        clock=lambda at_ms: utc_text(at_ms).removesuffix(" UTC"),
        late=late_text,
        count=_count,
        evidence=evidence_lines,
        field_name=_field_name,
        voter_change=voter_change_text,
        or_question=lambda value: "?" if value is None else value,
        ids=lambda nodes: ", ".join(map(str, nodes)) if nodes else "none",
    )
    environment.globals.update(
        rules=ALL_RULES, page_of=page_of, times_of=times_of, inhibition_of=inhibition_of, default_of=default_of
    )
    return environment


def _printable(value: object) -> object:
    """Formats every value of every template, before it is escaped."""
    if value is None:
        return "unknown"
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return visible(value)


def _prose(text: str) -> Markup:
    """Returns a text of the project with each paragraph and each item of a list on one line, and code marked as such.

    A name from a cluster must not become code: it is no argument.
    """
    parts = []
    for at, part in enumerate(text.split("```")):
        escaped = str(escape(part.strip("\n") if at % 2 else _SOFT_BREAK.sub(" ", part)))
        parts.append(f"<code>{escaped}</code>" if at % 2 else _CODE.sub(r"<code>\1</code>", escaped))
    return Markup("").join(map(Markup, parts))


def _field_name(name: str) -> str:
    return name.replace("_", " ") if _FIELD.fullmatch(name) else name


def _count(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}".replace(",", "\u202f")


def link(name: str) -> str:
    """Returns the path of a cluster's page."""
    return f"/clusters/{quote(name, safe='')}"


def rule_link(rule: str) -> str:
    """Returns the path of a rule's page."""
    return f"/rules/{quote(rule, safe='')}"


def render_cluster(
    one: ClusterView,
    *,
    timeline_ms: tuple[Millis, Millis],
    span: str = "",
    topic: str = "",
    absent: Sequence[str] = (),
    on_timeline: ClusterView | None = None,
    held: tuple[Millis, Millis] | None = None,
    at_ms: Millis | None = None,
    changeable: bool = False,
    limits: Mapping[str, int] = LIMITS,
    rule_link: Callable[[str], str] = rule_link,
) -> str:
    """Returns one cluster as HTML.

    Args:
        span: which of the offered spans the timeline has; empty for none of them.
        topic: only recovering partitions whose name contains this.
        absent: what the source does not hold, as text.
        on_timeline: the cluster whose events the timeline shows; None: `one`.
        held: the times of the first and the newest observation in the journal; None: no past state can be shown.
        at_ms: the past time of which `one` is the state; None: the present, or a report.
        changeable: whether alerts can be acknowledged and silenced.
    """
    status = one.status
    found = [partition for partition in (status.recovering if status else ()) if topic.lower() in _partition(partition)]
    total = (status.recovering_partitions if status else None) or 0
    line = timeline(on_timeline or one, *timeline_ms)
    return render(
        "cluster.html",
        one=one,
        line=line,
        control=time_control(held, line, at_ms),
        cursor=100 if at_ms is None else line.x(at_ms),
        spans=[*SPANS_S] if span else [],
        span=span,
        topic=topic,
        resolved=one.resolved_since(timeline_ms[0]),
        partitions=found[: limits["partitions_shown"]],
        partitions_found=len(found) if topic else total,
        absent=absent,
        recorded=one.recorded,
        at_ms=at_ms,
        changeable=changeable,
        rule_link=rule_link,
        **limits,
    )


def _partition(each: RecoveringPartition) -> str:
    return f"{each.topic or each.topic_id}-{each.partition}".lower()
