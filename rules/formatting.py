"""Words for people: durations, lists, and an alert as plain text."""

from collections.abc import Iterable, Mapping

from rules.alert import Alert, AlertState
from rules.finding import Plain
from rules.model.identifiers import Millis

_SECOND = 1_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR


def spelled(duration: Millis | int) -> str:
    """A duration as people say it: `850 ms`, `75 s`, `12 min`, `5 h`, `3 days`."""
    for unit, name, enough in ((_DAY, "days", 2), (_HOUR, "h", 2), (_MINUTE, "min", 2), (_SECOND, "s", 1)):
        if duration >= enough * unit:
            return f"{duration // unit} {name}"
    return f"{max(0, duration)} ms"


def listed(items: Iterable[object], most: int = 8) -> str:
    """`a`, `a and b`, `a, b and c`; beyond `most` the rest is counted: `a, b and 7 more`."""
    words = [str(item) for item in items]
    if len(words) > most:
        words = [*words[:most], f"{len(words) - most} more"]
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part) if words else "none"


def counted(number: int, noun: str) -> str:
    """`1 partition`, `2 partitions`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def rendered(alert: Alert) -> str:
    """An alert as plain text: headline, summary, how long, evidence, remedy with its steps numbered."""
    word = alert.severity.upper() if alert.state is AlertState.FIRING else "RESOLVED"
    stood = spelled(alert.observed_at_ms - alert.started_at_ms)
    where = "unknown" if alert.offset is None else str(alert.offset)
    lines = [
        f"{word} {alert.rule} · {alert.subject} · {alert.cluster}",
        alert.summary,
        f"first seen {stood} before this, at metadata offset {where}; fingerprint {alert.fingerprint}",
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
        lines += _named(name.replace("_", " "), value)
    return lines


def _named(name: str, value: Plain) -> list[str]:
    if isinstance(value, dict):
        inner = [line for key, each in value.items() for line in _named(key.replace("_", " "), each)]
        return [f"{name}:", *(f"  {line}" for line in inner)] if inner else [f"{name}: none"]
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        return [f"{name}:", *(f"  - {_flat(each)}" for each in value)]
    return [f"{name}: {_flat(value)}"]


def _flat(value: Plain) -> str:
    match value:
        case None:
            return "unknown"
        case bool():
            return "yes" if value else "no"
        case dict():
            pairs = (f"{key.replace('_', ' ')} {_inner(each)}" for key, each in value.items())
            return ", ".join(pairs) if value else "none"
        case list():
            return ", ".join(_inner(each) for each in value) if value else "none"
        case _:
            return str(value)


def _inner(value: Plain) -> str:
    """Within another list: bracketed, so that its commas stay its own."""
    return f"({_flat(value)})" if isinstance(value, dict | list) else _flat(value)
