"""A `WitnessRow` as JSON: the one place in which it is written and read."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from connectors.errors import UsageError, os_errors
from connectors.logdir.log_dir_files import open_regular_file
from connectors.observations.observation import SET_BY_REPLAY
from rules.finding import Plain
from rules.model.witness import MOST_PEERS, WitnessRow

_LARGEST: Final = 64 * 1024
SHORTEST_EVERY_MS: Final = 10_000
LONGEST_EVERY_MS: Final = 180_000
"""How seldom a row may be reported: it counts for three times that."""
_TIMES_MS: Final = range(10**12, 4 * 10**12)
"""The years 2001 to 2096."""
_LONGEST_MS: Final = 3_600_000
_LONGEST_AHEAD_MS: Final = 366 * 86_400_000
_NODES: Final = range(1 << 31)
_LONGEST_TEXT: Final = 300


@cache
def _json() -> TypeAdapter[WitnessRow]:
    return TypeAdapter(WitnessRow)


def row_json(row: WitnessRow) -> dict[str, Plain]:
    """Returns the JSON object of a row: each of its fields by its name."""
    written: dict[str, Plain] = _json().dump_python(row, mode="json", exclude={*SET_BY_REPLAY})
    return written


def read_row(file: Path) -> WitnessRow:
    """Reads the row of a file.

    Raises:
        UsageError: the file cannot be read, or is not what `kraftwatch witness --json` writes.
    """
    with os_errors(f"cannot read {file}"), open_regular_file(file) as opened:
        content = opened.read(_LARGEST + 1)
    try:
        return parsed_row(content)
    except UsageError as problem:
        raise UsageError(f"{file} is not one row of `kraftwatch witness --json`: {problem}") from None


def parsed_row(content: bytes) -> WitnessRow:
    """Returns the row of a JSON object that anyone may have written.

    Raises:
        UsageError: it is none; says what is wrong.
    """
    if len(content) > _LARGEST:
        raise UsageError(f"it is longer than {_LARGEST} bytes")
    try:
        row = _json().validate_json(content, strict=True)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False, include_context=False)[0]
        raise UsageError(": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))) from None
    if (fault := _fault(row, json.loads(content))) is not None:
        raise UsageError(fault)
    return row


def _fault(row: WitnessRow, given: dict[str, Any]) -> str | None:
    """Returns what is wrong with values of the right types; None if nothing is."""
    written = row_json(row)
    unknown = {*_names(given)} - {*_names(written)}
    if unknown:
        return f"{min(unknown)}: no such field"
    if len(row.peers) > MOST_PEERS:
        return f"peers: more than {MOST_PEERS}"
    ranges: dict[str, tuple[int | None, range]] = {
        "at_ms": (row.at_ms, _TIMES_MS),
        "took_ms": (row.took_ms, range(_LONGEST_MS)),
        "every_ms": (row.every_ms, range(SHORTEST_EVERY_MS, LONGEST_EVERY_MS + 1)),
        "leader_ahead_ms": (row.leader_ahead_ms, range(-_LONGEST_AHEAD_MS, _LONGEST_AHEAD_MS)),
        "free_bytes": (row.free_bytes, range(1 << 63)),
        "node": (row.node, _NODES),
        **{f"peers.{at}.node": (peer.node, _NODES) for at, peer in enumerate(row.peers)},
        **{f"peers.{at}.took_ms": (peer.took_ms, range(_LONGEST_MS)) for at, peer in enumerate(row.peers)},
    }
    for name, (value, allowed) in ranges.items():
        if value is not None and value not in allowed:
            return f"{name}: {value} is not from {allowed.start} to {allowed.stop - 1}"
    if any(len(text) > _LONGEST_TEXT or not text.isprintable() for text in _texts(written)):
        return f"a text has more than {_LONGEST_TEXT} characters, or one that is not printed"
    return None


def _names(value: Any) -> Iterator[str]:
    match value:
        case dict():
            yield from value
            for each in value.values():
                yield from _names(each)
        case list():
            for each in value:
                yield from _names(each)
        case _:
            pass


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict() | list():
            for each in value.values() if isinstance(value, dict) else value:
                yield from _texts(each)
        case _:
            pass
