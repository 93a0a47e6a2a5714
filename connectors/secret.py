"""Secret: a confidential text, given directly or as a file; it is not shown in `repr`."""

from dataclasses import dataclass, field
from pathlib import Path

from connectors.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Exactly one of `text` and `file` is set. A file is read at each use: a replaced secret needs no restart."""

    text: str | None = field(default=None, repr=False)
    file: Path | None = None

    @property
    def place(self) -> str:
        """Returns ` in FILE` for a message about the secret; nothing for one that is given directly."""
        return "" if self.file is None else f" in {self.file}"

    def read(self) -> str:
        """Returns the secret, without the line feed at the end of a file.

        Raises:
            UsageError: the file cannot be read, is empty, or holds more than one line.
        """
        if self.file is None:
            return self.text or ""
        try:
            text = self.file.read_text(encoding="utf-8").strip()
        except OSError as problem:
            raise UsageError(f"cannot read {self.file}: {(problem.strerror or 'unreadable').lower()}") from None
        except UnicodeDecodeError:
            raise UsageError(f"cannot read {self.file}: it is not UTF-8 text") from None
        if not text or len(text.splitlines()) > 1:
            raise UsageError(f"{self.file} must contain exactly one line: the secret")
        return text
