"""Durations as people write them: `30`, `30s`, `5m`, `1h`, `2d`; the same in YAML and on the command line."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

_FORM = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SCHEMA_PATTERN = "^[0-9]+([.][0-9]+)?[smhd]?$"


def parse_seconds(text: str) -> float:
    """Returns a duration in seconds; a number without a unit is in seconds.

    Raises:
        ValueError: naming the value and the expected form.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"invalid value '{text}': expected seconds or a duration such as 30s, 5m, 1h")
    return float(found[1]) * _SECONDS[found[2]]


def has_unit(value: Any) -> bool:
    """Whether a configured value is a duration with a unit, such as `5m`."""
    return isinstance(value, str) and bool((found := _FORM.fullmatch(value.strip())) and found[2])


def _seconds(value: Any) -> Any:
    if isinstance(value, str):
        return parse_seconds(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        # YAML reads yes, on and true as a boolean, which would be 1 second.
        shown = f"value '{str(value).lower()}'" if isinstance(value, bool) else "value"
        raise ValueError(f"invalid {shown}: expected seconds or a duration such as 30s, 5m, 1h")  # noqa: TRY004 - pydantic handles ValueError
    return value


Duration = Annotated[
    float,
    BeforeValidator(_seconds),
    Field(gt=0, allow_inf_nan=False),
    WithJsonSchema({"type": ["number", "string"], "exclusiveMinimum": 0, "pattern": _SCHEMA_PATTERN}),
]
"""A duration of more than 0 seconds."""

DurationOrZero = Annotated[
    float,
    BeforeValidator(_seconds),
    Field(ge=0, allow_inf_nan=False),
    WithJsonSchema({"type": ["number", "string"], "minimum": 0, "pattern": _SCHEMA_PATTERN}),
]
"""A duration of 0 seconds or more."""

ThresholdValue = Annotated[
    float,
    BeforeValidator(_seconds),
    WithJsonSchema({"type": ["number", "string"], "minimum": 0, "pattern": _SCHEMA_PATTERN}),
]
"""The value of a rule's threshold: a duration where its unit is seconds, else a number."""
