"""Stored JSON: what it can represent, and what a crash, a disk or a person may have damaged."""

import json
import math
from collections.abc import Mapping
from typing import Any

from rules.finding import Plain
from rules.formatting import with_hidden


def parse_json(content: bytes | str) -> Any:
    """Returns the parsed value, of any type: the caller checks it.

    Raises ValueError if it is not JSON, not UTF-8, or nested too deeply.
    """
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def json_line(value: object, separators: tuple[str, str] | None = None) -> str:
    """Returns plain data as JSON that people can read, on one line for every program: hidden characters are escaped.

    Raises ValueError if it has a number that JSON does not have, or refers to itself, TypeError if it is not plain
    data.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=separators)
    return with_hidden(text, lambda character: json.dumps(character)[1:-1])


def json_safe(evidence: Mapping[str, Plain]) -> dict[str, Plain]:
    """Returns evidence that JSON can represent: NaN and infinity become null, so that no alert is lost."""
    return {name: _finite(value) for name, value in evidence.items()}


def _finite(value: Plain) -> Plain:
    match value:
        case float() if not math.isfinite(value):
            return None
        case list():
            return [_finite(each) for each in value]
        case dict():
            return json_safe(value)
        case _:
            return value
