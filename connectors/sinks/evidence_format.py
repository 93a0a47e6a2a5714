"""Formats for people what several sinks show: evidence in lines, readable times and durations, other alerts."""

from collections.abc import Mapping, Sequence

from connectors.sinks.alert_json import iso
from connectors.store.stored_json import json_safe
from rules.alert import Alert, AlertState
from rules.finding import Plain
from rules.formatting import late_text, utc_text, visible
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification

_INDENT = "  "
_MAX_INLINE = 96


def evidence_lines(evidence: Mapping[str, Plain], *, tables: bool = True) -> list[tuple[str, str]]:
    """Returns lines of (name, value). Nested evidence is indented; a list of objects with equal fields is a table.

    `tables`: False for a font whose characters differ in width.
    """
    rows: list[tuple[str, str]] = []
    for name, value in json_safe(evidence).items():
        rows.extend(_lines(visible(name), value, tables=tables))
    return rows


def plain_evidence(evidence: Mapping[str, Plain]) -> list[str]:
    """Returns lines `name: value` for a font whose characters differ in width."""
    rows = evidence_lines(evidence, tables=False)
    return [f"{name}: {value}".rstrip() if name else f"{_INDENT}{value}" for name, value in rows]


def alert_text(alert: Alert) -> str:
    """Returns an alert as plain text: headline, summary, start, evidence, and the numbered steps of the remedy.

    No text in it, such as the name of a host, spreads over lines.
    """
    firing = alert.state is AlertState.FIRING
    offset = "unknown" if alert.offset is None else str(alert.offset)
    lines = [
        f"{alert.severity.upper() if firing else 'RESOLVED'} {alert.rule} · {alert.subject} · {alert.cluster}",
        alert.summary,
        f"first observed {utc_text(alert.started_at_ms)}, metadata offset {offset}, fingerprint {alert.fingerprint}",
        *([] if alert.late_ms is None else [late_text(alert.late_ms)]),
        "Evidence" if firing else "Evidence while it was firing",
        *(f"{_INDENT}{line}" for line in plain_evidence(alert.evidence)),
        *(["What to do"] if alert.remedy else []),
    ]
    for number, step in enumerate(alert.remedy, start=1):
        lines.append(f"{_INDENT}{number}. {step[1:].strip() if step.startswith('#') else f'$ {step}'}")
    return "\n".join(map(visible, lines)) + "\n"


def duration(ms: Millis | float) -> str:
    """Formats a duration: `0.4 s`, `42 s`, `3 min 5 s`, `2 h 10 min`, `9 d 4 h`."""
    seconds = ms / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, below, below_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit}" + (f" {rest} {below_unit}" if rest else "")
    return f"{whole} s"


def shortened(text: str, limit: int) -> str:
    """Returns the text, or its beginning with `…`, in at most `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def other_alert_lines(alerts: Sequence[Alert], cluster: str, limit: int) -> list[str]:
    """Returns one line for each of the first `limit` alerts that are listed below a root cause, and how many follow.

    The line of an alert of another cluster than `cluster` names its cluster: a storm incident has many clusters.
    """
    lines = [
        visible(
            f"{alert.state.value} {alert.severity.value} {'' if alert.cluster == cluster else alert.cluster + ' '}"
            f"{alert.rule} {alert.subject}: {alert.summary}"
        )
        for alert in alerts[:limit]
    ]
    return [*lines, f"and {len(alerts) - limit} more"] if len(alerts) > limit else lines


def delay_text(notification: Notification, service: str) -> str | None:
    """Returns why a notification comes later than what it reports; None if it does not."""
    missed = notification.state is AlertState.RESOLVED and not notification.previously_notified
    if notification.late_ms is not None:
        return f"{'fired and resolved unnoticed, ' if missed else ''}{late_text(notification.late_ms)}"
    return f"fired and resolved before {service} could be notified" if missed else None


def _lines(name: str, value: Plain, *, tables: bool) -> list[tuple[str, str]]:
    match value:
        case dict() if value and not _fits(value):
            inner = [line for key, each in value.items() for line in _lines(visible(key), each, tables=tables)]
            return [(name, ""), *((_INDENT + key, each) for key, each in inner)]
        case list() if tables and (table := _table(value)) is not None:
            return [(name if at == 0 else "", line) for at, line in enumerate(table)]
        case list() if value and not _fits(value):
            return [(name if at == 0 else "", _inline(each)) for at, each in enumerate(value)]
        case _:
            return [(name, _inline(value, name))]


def _fits(value: "list[Plain] | dict[str, Plain]") -> bool:
    flat = all(not isinstance(each, list | dict) for each in (value.values() if isinstance(value, dict) else value))
    return flat and len(_inline(value)) <= _MAX_INLINE


def _table(value: "list[Plain]") -> list[str] | None:
    """Returns a header line and one line per object, or None unless all values are objects with equal fields."""
    rows = [each for each in value if isinstance(each, dict)]
    if not rows or len(rows) < len(value) or any(row.keys() != rows[0].keys() for row in rows) or not rows[0]:
        return None
    names = list(rows[0])
    cells = [[visible(name) for name in names]]
    cells += [[_inline(row[name], name) for name in names] for row in rows]
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def _inline(value: Plain, name: str = "") -> str:
    match value:
        case None:
            return "unknown"
        case bool():
            return "yes" if value else "no"
        case int() if name.endswith(("_at_ms", "timestamp_ms", "_since_ms")):
            return _time(value)
        case int() | float() if name.endswith("_ms"):
            return duration(value)
        case str():
            return visible(value) if value else "(empty)"
        case int() | float():
            return str(value)
        case list():
            return ", ".join(_inline(each) for each in value) if value else "none"
        case dict():
            return ", ".join(f"{visible(key)}={_inline(each, key)}" for key, each in value.items()) or "none"


def _time(at_ms: int) -> str:
    try:
        return iso(Millis(at_ms))
    except OverflowError:
        return str(at_ms)
