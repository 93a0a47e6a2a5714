"""What all parts of the configuration file have in common."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from connectors.errors import UsageError


class Section(BaseModel):
    """A part of the configuration file: unknown keys are refused, values are immutable."""

    # The text under a key is its description in the JSON schema and in docs/configuration.md.
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


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
