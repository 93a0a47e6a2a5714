"""Secret: a confidential text, given directly or as a file; neither `repr` nor a redacted error shows it."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from connectors.errors import UsageError, os_errors

_URL = re.compile(
    r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)(?:(?P<login>[^\s/]*)@)?(?P<host>[^\s/?#'\"]*)(?P<rest>[^\s'\")]*)"
)
_NAMED = re.compile(
    r"(?i)\b(?P<name>[\w.-]*(?:password|passwd|secret|token|api[_-]?key|routing[_-]?key|authorization))"
    r"(?P<sign>['\"]?\s*[=:]\s*)(?:(?:bearer|basic)\s+)?(?P<value>'[^']*'|\"[^\"]*\"|[^\s,;&]+)"
)
_HIDDEN = "***"


def read_text(file: Path) -> str:
    """Returns the text of a file. Raises UsageError if it cannot be read, or is not UTF-8."""
    try:
        with os_errors(f"cannot read {file}"):
            return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"cannot read {file}: it is not UTF-8 text") from None


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

        Raises UsageError if the file cannot be read, is empty, or holds more than one line.
        """
        if self.file is None:
            return self.text or ""
        text = read_text(self.file).strip()
        if not text or len(text.splitlines()) > 1:
            raise UsageError(f"{self.file} must contain exactly one line: the secret")
        return text

    def check(self, name: str) -> None:
        """Reads it, so that an error is reported early.

        Raises:
            UsageError: as of `read`, behind the name of the key.
        """
        try:
            self.read()
        except UsageError as problem:
            raise UsageError(f"{name}: {problem}") from None


def redact(text: str, *secrets: str) -> str:
    """Removes user names, passwords, paths and queries of URLs, and the values of names such as `password`.

    The path is removed because the path of a webhook URL is its secret.
    """
    for secret in secrets:
        text = text.replace(secret, _HIDDEN) if secret else text
    hosts_only = _URL.sub(_host_only, text)
    return _NAMED.sub(lambda named: f"{named['name']}{named['sign']}{_HIDDEN}", hosts_only)


def _host_only(url: re.Match[str]) -> str:
    # If an @ follows a / or ?, the apparent host may be part of a password or of a query.
    ambiguous = "@" in url["rest"] or {"?", "#"} & set(url["login"] or "")
    return f"{url['scheme']}{_HIDDEN if ambiguous else url['host']}{'/' + _HIDDEN if url['rest'] else ''}"
