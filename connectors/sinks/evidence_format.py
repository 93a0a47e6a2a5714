"""Evidence for people: names and values in aligned lines, times and durations as people say them."""

import unicodedata
from collections.abc import Mapping, Sequence

from connectors.sinks.alert_json import iso, sayable
from rules.alert import Alert
from rules.finding import Plain
from rules.model.identifiers import Millis

_INDENT = "  "
_LONGEST_INLINE = 96


def written(evidence: Mapping[str, Plain]) -> list[tuple[str, str]]:
    """Lines of (name, value); nested evidence is indented under its name, a list of alike objects is a table."""
    rows: list[tuple[str, str]] = []
    for name, value in sayable(evidence).items():
        rows.extend(_lines(visible(name), value))
    return rows


def duration(ms: Millis | float) -> str:
    """`0.4 s`, `42 s`, `3 min 5 s`, `2 h 10 min`, `9 d 4 h`."""
    seconds = ms / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, below, below_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit}" + (f" {rest} {below_unit}" if rest else "")
    return f"{whole} s"


def visible(text: str, keep: str = "") -> str:
    """The text with every control and direction character written out (`\\x1b`), except those in `keep`."""
    return "".join(
        each if each in keep or unicodedata.category(each) not in _UNSEEN else each.encode("unicode_escape").decode()
        for each in text
    )


_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Control, format (direction overrides among them), surrogate, private, line and paragraph separators."""


def beside(alerts: Sequence[Alert], cluster: str, most: int) -> list[str]:
    """What is told with a root cause of this cluster: a line for each of the first `most`, and how many more.

    Those of another cluster say so: a storm is one message of many clusters.
    """
    lines = [
        f"{alert.state.value} {alert.severity.value} {'' if alert.cluster == cluster else alert.cluster + ' '}"
        f"{alert.rule} {alert.subject}: {alert.summary}"
        for alert in alerts[:most]
    ]
    return [*lines, f"and {len(alerts) - most} more"] if len(alerts) > most else lines


def _lines(name: str, value: Plain) -> list[tuple[str, str]]:
    match value:
        case dict() if value and not _fits(value):
            inner = [line for key, each in value.items() for line in _lines(visible(key), each)]
            return [(name, ""), *((_INDENT + key, each) for key, each in inner)]
        case list() if (table := _table(value)) is not None:
            return [(name if at == 0 else "", line) for at, line in enumerate(table)]
        case list() if value and not _fits(value):
            return [(name if at == 0 else "", _inline(each)) for at, each in enumerate(value)]
        case _:
            return [(name, _inline(value, name))]


def _fits(value: "list[Plain] | dict[str, Plain]") -> bool:
    flat = all(not isinstance(each, list | dict) for each in (value.values() if isinstance(value, dict) else value))
    return flat and len(_inline(value)) <= _LONGEST_INLINE


def _table(value: "list[Plain]") -> list[str] | None:
    """Objects of the same flat fields, one a line under their names; None where they are no such thing."""
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
        case int() if name.endswith(("_at_ms", "timestamp_ms")):
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
