"""Tables of figures in Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

_COLUMNS_MAX = 6
"""A table with more columns is turned: it would be wider than a page."""


def number(value: Any) -> str:
    """Returns a figure with at most three significant digits after the first; a dash for none."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float() if abs(value) >= 100:
            return f"{value:,.0f}"
        case float() if abs(value) >= 10:
            return f"{value:.1f}"
        case float():
            return f"{value:.3g}"
        case list() | tuple():
            return ", ".join(map(number, value))
        case _:
            return str(value)


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Returns the lines of a table and an empty line."""
    return [
        f"| {' | '.join(heads)} |",
        f"|{'---|' * len(heads)}",
        *(f"| {' | '.join(map(number, row))} |" for row in rows),
        "",
    ]


def tables_of(figures: Mapping[str, Any], head: str) -> list[str]:
    """Returns figures of any structure: a table of the rows that have columns, and one of the other values."""
    rows = {name: value for name, value in figures.items() if isinstance(value, Mapping)}
    lines: list[str] = []
    if rows:
        flat = {name: _flat(value) for name, value in rows.items()}
        columns = list(dict.fromkeys(column for row in flat.values() for column in row))
        if len(columns) > _COLUMNS_MAX:
            heads = [head, *map(_label, flat)]
            lines += table(heads, [[_label(column), *(row.get(column) for row in flat.values())] for column in columns])
        else:
            heads = [head, *map(_label, columns)]
            lines += table(
                heads, [[_label(name), *(row.get(column) for column in columns)] for name, row in flat.items()]
            )
    single = {name: value for name, value in figures.items() if name not in rows}
    if single:
        lines += table([head, "value"], [[_label(name), value] for name, value in single.items()])
    return lines


def _flat(figures: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in figures.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name} ")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _label(name: str) -> str:
    return f"{int(name):,}" if name.isdigit() else name.replace("_", " ")
