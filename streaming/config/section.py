"""What every part of the file has in common: unknown keys are refused, files are read with a clear word."""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from connectors.errors import UsageError


class Section(BaseModel):
    """Every part of the file: unknown keys are refused, values do not change."""

    # The text under a key is its description: for the schema, and for docs/configuration.md.
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def _seconds(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"([1-9][0-9]{0,8})([smhd])", value.strip())
    if found is None:
        raise ValueError("is no duration: write 90s, 30m, 4h or 3d")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3_600, "d": 86_400}[found[2]]


Duration = Annotated[
    float,
    BeforeValidator(_seconds),
    Field(gt=0),
    WithJsonSchema({"type": ["number", "string"], "exclusiveMinimum": 0, "pattern": "^[1-9][0-9]*[smhd]$"}),
]
"""Seconds, given as a number or as a text: `90s`, `30m`, `4h`, `3d`."""


def readable(path: Path, what: str) -> str:
    """The text of a file that the configuration names; `what` is named in the error.

    Raises:
        UsageError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"{what}: cannot read {path}: {(problem.strerror or 'unreadable').lower()}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{what}: cannot read {path}: it is not UTF-8 text") from None
