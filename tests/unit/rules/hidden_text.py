"""Names with hidden characters, and every text of a result."""

import re
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

from rules.evaluate import evaluate, thresholds_for
from rules.facts.quorum import Facts
from rules.lifecycle import TrackedConditions, advance
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum

LINE_BREAKS = ("\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
"""What `str.splitlines` takes as one: more than any terminal or editor does."""

OTHERS = ("\x1b[2K", "\u202e", "\x00", "\u200b")

EVIL = "rm -rf x"

HOST = re.compile(r"(?<![\w-])[cbCB]\d+(?![\w-])")


def with_hosts(value: Any, hidden: str, then: str = EVIL) -> Any:
    """Returns the situation with other names of hosts: each has the hidden text, and a command after it."""
    match value:
        case Enum():
            return value
        case str():
            return HOST.sub(lambda host: f"{host[0]}{hidden}{then}", value)
        case tuple() | frozenset():
            return type(value)(with_hosts(each, hidden, then) for each in value)
        case list():
            return [with_hosts(each, hidden, then) for each in value]
        case dict():
            return {with_hosts(key, hidden, then): with_hosts(each, hidden, then) for key, each in value.items()}
        case _ if is_dataclass(value) and not isinstance(value, type):
            own = {one.name: with_hosts(getattr(value, one.name), hidden, then) for one in fields(value) if one.init}
            return replace(value, **own)
        case _:
            return value


def texts(value: Any) -> list[str]:
    """Returns every text in a result."""
    match value:
        case str():
            return [value]
        case dict():
            return [text for pair in value.items() for each in pair for text in texts(each)]
        case tuple() | list():
            return [text for each in value for text in texts(each)]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return [text for one in fields(value) for text in texts(getattr(value, one.name))]
        case _:
            return []


def fired(quorum: Quorum) -> Any:
    """Returns the first alert that fires when the quorum stays as it is."""
    thresholds = thresholds_for({})
    tracked, alerts = advance(TrackedConditions(), evaluate(Facts(quorum), thresholds), quorum, thresholds)
    later = replace(quorum, now_ms=Millis(quorum.now_ms + 3_600_000))
    return (*alerts, *advance(tracked, evaluate(Facts(quorum), thresholds), later, thresholds)[1])[0]
