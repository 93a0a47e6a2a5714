"""Redaction: what an error's text may say of the place it came from."""

import re

_URL = re.compile(
    r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)(?:(?P<login>[^\s/]*)@)?(?P<host>[^\s/?#'\"]*)(?P<rest>[^\s'\")]*)"
)
_NAMED = re.compile(
    r"(?i)\b(?P<name>[\w.-]*(?:password|passwd|secret|token|api[_-]?key|routing[_-]?key|authorization))"
    r"(?P<sign>['\"]?\s*[=:]\s*)(?:(?:bearer|basic)\s+)?(?P<value>'[^']*'|\"[^\"]*\"|[^\s,;&]+)"
)
_HIDDEN = "***"


def redact(text: str, *secrets: str) -> str:
    """The text without user names, passwords, paths and queries of URLs, and without values named as secrets.

    The path goes too: that of a web hook is its password.

    Args:
        text: what is to be shown.
        secrets: further texts that must not be.
    """
    for secret in secrets:
        text = text.replace(secret, _HIDDEN) if secret else text
    hosts_only = _URL.sub(_host_only, text)
    return _NAMED.sub(lambda named: f"{named['name']}{named['sign']}{_HIDDEN}", hosts_only)


def _host_only(url: re.Match[str]) -> str:
    # Where an @ stands behind a / or ?, what seems to be the host may be half of a password, or of a query.
    doubtful = "@" in url["rest"] or {"?", "#"} & set(url["login"] or "")
    return f"{url['scheme']}{_HIDDEN if doubtful else url['host']}{'/' + _HIDDEN if url['rest'] else ''}"
