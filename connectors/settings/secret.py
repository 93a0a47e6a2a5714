"""Secret: a confidential text, given directly or as a file; neither `repr` nor a redacted error shows it."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from connectors.errors import UsageError, os_errors
from rules.formatting import shortened, visible

# A file has no login, and its name is what an error of Java is about.
_URL = re.compile(r"(?<!file)://(?:(?P<login>[^\s/]*)@)?(?P<host>[^\s/?#'\"]*)(?P<rest>[^\s'\")]*)")
_NAMED = re.compile(
    r"(?i)(?P<name>password|passwd|secret|token|api[_-]?key|routing[_-]?key|authorization)(?P<sign>['\"]?\s*[=:]\s*)"
    r"(?P<value>(?:(?:bearer|basic)\s+)?(?:'[^']*(?:'|\Z)[^\s,;&]*|\"[^\"]*(?:\"|\Z)[^\s,;&]*|[^\s,;&]+))"
)
_CUT_URL = re.compile(r"://\S*\Z")
_HIDDEN = "***"
LENGTH_MAX = 1_000
"""Characters of a text from outside that are read."""
_MAX_EXCERPT = 120


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
    """Returns the beginning of a text from outside, at most LENGTH_MAX characters, without what may be secret.

    Every text of a server, a library or Java goes through it before it is logged or shown. The time that it takes is in
    proportion to the length of the text, whatever it contains. A second call changes nothing.

    Removed are these secrets, user names, passwords, paths and queries of URLs (the path of a webhook URL is its
    secret), and the values of names such as `password`.
    """
    # The longest first: it may contain another one.
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    if len(text) > LENGTH_MAX:
        # What follows shows which part of a URL is its login.
        text = _CUT_URL.sub("://", text[:LENGTH_MAX])
    # Twice: a hidden value may have contained the end of a URL.
    for pattern, replacement in ((_URL, _host_only), (_NAMED, _name_only), (_URL, _host_only)):
        text = pattern.sub(replacement, text)
    return text


def excerpt(text: str, *secrets: str) -> str:
    """Returns the beginning of a server's message on one line, redacted and without control characters."""
    return shortened(visible(" ".join(redact(text, *secrets).split())), _MAX_EXCERPT)


def _hidden(text: str) -> str:
    """Returns what replaces a secret text: nothing becomes longer, so that a second call has nothing to cut."""
    return _HIDDEN[: len(text)]


def _name_only(named: re.Match[str]) -> str:
    return f"{named['name']}{named['sign']}{_hidden(named['value'])}"


def _host_only(url: re.Match[str]) -> str:
    # If an @ follows a / or ?, the apparent host may be part of a password or of a query.
    ambiguous = "@" in url["rest"] or {"?", "#"} & set(url["login"] or "")
    path = f"/{_hidden(url['rest'][1:])}" if url["rest"] else ""
    return f"://{_hidden(url['host']) if ambiguous else url['host']}{path}"
