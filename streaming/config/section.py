"""What every part of the file has in common: unknown keys are refused, files are read with a clear word."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from connectors.errors import UsageError


class Section(BaseModel):
    """Every part of the file: unknown keys are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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
