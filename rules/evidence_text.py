"""Evidence as lines for people, with readable times and durations."""

import math
from collections.abc import Mapping

from rules.finding import Plain
from rules.formatting import duration, iso, visible
from rules.model.identifiers import Millis

_INDENT = "  "
_MAX_INLINE = 96


def evidence_lines(evidence: Mapping[str, Plain], *, tables: bool = True) -> list[tuple[str, str]]:
    """Returns lines of (name, value). Nested evidence is indented; a list of objects with equal fields is a table.

    `tables`: False for a font whose characters differ in width.
    """
    rows: list[tuple[str, str]] = []
    for name, value in evidence.items():
        rows.extend(_lines(name, value, tables=tables))
    return rows


def plain_evidence(evidence: Mapping[str, Plain]) -> list[str]:
    """Returns lines `name: value` for a font whose characters differ in width."""
    rows = evidence_lines(evidence, tables=False)
    return [f"{name}: {value}".rstrip() if name else f"{_INDENT}{value}" for name, value in rows]


def _lines(key: str, value: Plain, *, tables: bool) -> list[tuple[str, str]]:
    name = _name(key)
    match value:
        case dict() if value and not _fits(value):
            inner = [line for each, of in value.items() for line in _lines(each, of, tables=tables)]
            return [(name, ""), *((_INDENT + each, of) for each, of in inner)]
        case list() if tables and (table := _table(value)) is not None:
            return [(name if at == 0 else "", line) for at, line in enumerate(table)]
        case list() if value and not _fits(value):
            return [(name if at == 0 else "", _inline(each)) for at, each in enumerate(value)]
        case _:
            return [(name, _inline(value, key))]


def _name(key: str) -> str:
    """Returns the name without its unit, which the value has."""
    return visible(key).removesuffix("_ms")


def _fits(value: "list[Plain] | dict[str, Plain]") -> bool:
    flat = all(not isinstance(each, list | dict) for each in (value.values() if isinstance(value, dict) else value))
    return flat and len(_inline(value)) <= _MAX_INLINE


def _table(value: "list[Plain]") -> list[str] | None:
    """Returns a header line and one line per object, or None unless all values are objects with equal fields."""
    rows = [each for each in value if isinstance(each, dict)]
    if not rows or len(rows) < len(value) or any(row.keys() != rows[0].keys() for row in rows) or not rows[0]:
        return None
    names = list(rows[0])
    cells = [[_name(name) for name in names]]
    cells += [[_inline(row[name], name) for name in names] for row in rows]
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def _inline(value: Plain, name: str = "") -> str:
    match value:
        case None:
            return "unknown"
        case float() if not math.isfinite(value):
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
            return ", ".join(f"{_name(key)}={_inline(each, key)}" for key, each in value.items()) or "none"


def _time(at_ms: int) -> str:
    try:
        return iso(Millis(at_ms))
    except OverflowError:
        return str(at_ms)
