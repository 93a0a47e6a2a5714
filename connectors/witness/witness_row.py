"""A `WitnessRow` as JSON: the one place in which it is written and read."""

from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from connectors.errors import UsageError, os_errors
from connectors.logdir.log_dir_files import open_regular_file
from rules.finding import Plain
from rules.model.witness import MOST_PEERS, WitnessRow

_LARGEST = 64 * 1024


@cache
def _json() -> TypeAdapter[WitnessRow]:
    return TypeAdapter(WitnessRow)


def row_json(row: WitnessRow) -> dict[str, Plain]:
    """Returns the JSON object of a row: each of its fields by its name."""
    written: dict[str, Plain] = _json().dump_python(row, mode="json")
    return written


def read_row(file: Path) -> WitnessRow:
    """Reads the row of a file.

    Raises:
        UsageError: the file cannot be read, or is not what `kraftwatch witness --json` writes.
    """
    with os_errors(f"cannot read {file}"), open_regular_file(file) as opened:
        content = opened.read(_LARGEST + 1)
    try:
        row = _json().validate_json(content, strict=True) if len(content) <= _LARGEST else None
    except ValidationError:
        row = None
    if row is None or len(row.peers) > MOST_PEERS:
        raise UsageError(f"{file} is not one row of `kraftwatch witness --json`")
    return row
