"""Drawing: the templates, and how values are written in them. The page of a job and a report are drawn by the same.

Names come from clusters, and whoever may create a topic may choose one: everything is escaped, and characters that
hide or turn text around are written out.
"""

import base64
import hashlib
import re
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from connectors.sinks.alert_json import from_iso, iso
from connectors.sinks.evidence_format import duration, visible, written
from rules.evaluate import RULES
from rules.model.identifiers import Millis
from rules.rule_page import default_of, page_of, silence_of, times_of
from streaming.web.timeline_lanes import changed

_FIELD = re.compile(r" *[a-z][a-z0-9_]*")
_STATIC = files("streaming.web") / "static"


def draw(template: str, **shown: Any) -> Markup:
    """A template's HTML, safe to be put into another."""
    return Markup(_environment().get_template(template).render(**shown))  # noqa: S704 - what autoescape made


@cache
def asset(name: str) -> str:
    """A style sheet or script of ours."""
    return (_STATIC / name).read_text(encoding="utf-8")


def inline(text: str) -> Markup:
    """A style sheet or script of ours as it goes into a document, letter by letter: its digest is of these."""
    return Markup(text)  # noqa: S704 - an asset, nobody's input


def digest(text: str) -> str:
    """How a Content-Security-Policy names an inline style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("streaming.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_written,
    )
    environment.filters.update(
        ago=lambda ms: "unknown" if ms is None else duration(max(0, ms)),
        iso=iso,
        clock=_clock,
        at_ms=from_iso,
        count=_count,
        evidence=written,
        spaced=_spaced,
        changed=changed,
        mark=lambda value: "?" if value is None else value,
        known=lambda value: "unknown" if value is None else value,
        ids=lambda nodes: ", ".join(map(str, nodes)) if nodes else "none",
    )
    environment.globals.update(
        rules=RULES, page_of=page_of, times_of=times_of, silence_of=silence_of, default_of=default_of
    )
    return environment


def _written(value: object) -> object:
    """Every value of every template passes here, and is escaped after it."""
    if value is None:
        return "unknown"
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return visible(value, keep="\n")


def _spaced(name: str) -> str:
    """A field's name with blanks; what is no such name, a directory id for one, stays as it is."""
    return name.replace("_", " ") if _FIELD.fullmatch(name) else name


def _clock(at_ms: Millis) -> str:
    """`2026-11-20 08:15:04`, UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _count(number: int | None) -> str:
    """With thin blanks between the thousands."""
    return "unknown" if number is None else f"{number:,}".replace(",", "\u202f")
