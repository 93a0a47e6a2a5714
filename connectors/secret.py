"""A Secret: a text that nobody is shown, given itself or as a file."""

from dataclasses import dataclass, field
from pathlib import Path

from connectors.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Exactly one of the two. A file is read at each use: a secret that was replaced needs no restart."""

    text: str | None = field(default=None, repr=False)
    file: Path | None = None

    def read(self) -> str:
        """The secret, without the line feed that ends a file.

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
            raise UsageError(f"{self.file} does not hold one line: put the secret there, and nothing else")
        return text
