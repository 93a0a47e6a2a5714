"""What all parts of the configuration file have in common."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from connectors.errors import UsageError


class Section(BaseModel):
    """A part of the configuration file: unknown keys are refused, values are immutable."""

    # The text under a key is its description in the JSON schema and in docs/configuration.md.
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        # YAML reads yes, on and true as a boolean, which pydantic would accept as 1.
        if isinstance(value, bool) and cls.model_fields[info.field_name or ""].annotation in (int, float):
            raise ValueError("expected a number, not true or false")
        return value


def readable(path: Path, what: str) -> str:
    """Returns the text of a file that the configuration names; `what` is the key named in the error.

    Raises:
        UsageError: the file cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"{what}: cannot read {path}: {(problem.strerror or 'unreadable').lower()}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{what}: cannot read {path}: it is not UTF-8 text") from None
