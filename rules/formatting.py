"""Text for people: durations, lists, counts, and an alert as plain text."""

from collections.abc import Iterable, Mapping, Sequence

from rules.alert import Alert, AlertState
from rules.finding import Plain
from rules.model.identifiers import Millis

_SECOND = 1_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
MOST_ENTRIES = 100
"""How many entries a list has that each of many findings repeats: the evidence must not grow with their square."""


def ms_text(duration: Millis | int) -> str:
    """Returns a duration as text: `850 ms`, `75 s`, `12 min`, `5 h`, `3 days`."""
    for unit, name, enough in ((_DAY, "days", 2), (_HOUR, "h", 2), (_MINUTE, "min", 2), (_SECOND, "s", 1)):
        if duration >= enough * unit:
            return f"{duration // unit} {name}"
    return f"{max(0, duration)} ms"


def and_join(items: Iterable[object], most: int = 8) -> str:
    """Returns `a`, `a and b` or `a, b and c`; if there are more than `most` items: `a, b and 7 more`."""
    words = [str(item) for item in items]
    if len(words) > most:
        words = [*words[:most], f"{len(words) - most} more"]
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part) if words else "none"


def first_values(values: Sequence[Plain]) -> list[Plain]:
    """Returns the values; of more than MOST_ENTRIES the first ones, and how many are left out as the last one."""
    more = len(values) - MOST_ENTRIES
    return [*values[:MOST_ENTRIES], f"{more} more"] if more > 0 else [*values]


def first_entries(values: Mapping[str, Plain]) -> dict[str, Plain]:
    """Returns the entries; of more than MOST_ENTRIES the first ones, and how many are left out under `more`."""
    more = len(values) - MOST_ENTRIES
    return {**dict([*values.items()][:MOST_ENTRIES]), "more": more} if more > 0 else {**values}


def first_steps(steps: Sequence[str]) -> list[str]:
    """Returns the steps of a remedy; of more than MOST_ENTRIES the first ones, and how many are left out."""
    more = len(steps) - MOST_ENTRIES
    return [*steps[:MOST_ENTRIES], f"# Do the same for {more} more"] if more > 0 else [*steps]


def plural(number: int, noun: str) -> str:
    """Returns the number with its noun: `1 partition`, `2 partitions`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def alert_text(alert: Alert) -> str:
    """Returns an alert as plain text: headline, summary, start, evidence, and the numbered steps of the remedy."""
    state = alert.severity.upper() if alert.state is AlertState.FIRING else "RESOLVED"
    age = ms_text(alert.observed_at_ms - alert.started_at_ms)
    offset = "unknown" if alert.offset is None else str(alert.offset)
    lines = [
        f"{state} {alert.rule} · {alert.subject} · {alert.cluster}",
        alert.summary,
        f"started {age} ago, metadata offset {offset}, fingerprint {alert.fingerprint}",
        "Evidence",
        *(f"  {line}" for line in _evidence(alert.evidence)),
    ]
    if alert.remedy:
        lines += ["What to do", *_steps(alert.remedy)]
    return "\n".join(lines) + "\n"


def _steps(remedy: Iterable[str]) -> list[str]:
    return [
        f"  {number}. {step[1:].strip()}" if step.startswith("#") else f"  {number}. $ {step}"
        for number, step in enumerate(remedy, start=1)
    ]


def _evidence(evidence: Mapping[str, Plain]) -> list[str]:
    lines: list[str] = []
    for name, value in evidence.items():
        lines += _entry(name.replace("_", " "), value)
    return lines


def _entry(name: str, value: Plain) -> list[str]:
    if isinstance(value, dict):
        inner = [line for key, each in value.items() for line in _entry(key.replace("_", " "), each)]
        return [f"{name}:", *(f"  {line}" for line in inner)] if inner else [f"{name}: none"]
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        return [f"{name}:", *(f"  - {_text(each)}" for each in value)]
    return [f"{name}: {_text(value)}"]


def _text(value: Plain) -> str:
    match value:
        case None:
            return "unknown"
        case bool():
            return "yes" if value else "no"
        case dict():
            pairs = (f"{key.replace('_', ' ')} {_nested(each)}" for key, each in value.items())
            return ", ".join(pairs) if value else "none"
        case list():
            return ", ".join(_nested(each) for each in value) if value else "none"
        case _:
            return str(value)


def _nested(value: Plain) -> str:
    """Returns a value inside another list: in parentheses if it has commas of its own."""
    return f"({_text(value)})" if isinstance(value, dict | list) else _text(value)
