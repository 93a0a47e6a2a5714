"""Error redaction: removes secrets from error texts."""

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
    """Removes user names, passwords, paths and queries of URLs, and the values of names such as `password`.

    The path is removed because the path of a webhook URL is its secret.

    Args:
        text: the text to redact.
        secrets: further texts to remove.
    """
    for secret in secrets:
        text = text.replace(secret, _HIDDEN) if secret else text
    hosts_only = _URL.sub(_host_only, text)
    return _NAMED.sub(lambda named: f"{named['name']}{named['sign']}{_HIDDEN}", hosts_only)


def _host_only(url: re.Match[str]) -> str:
    # If an @ follows a / or ?, the apparent host may be part of a password or of a query.
    ambiguous = "@" in url["rest"] or {"?", "#"} & set(url["login"] or "")
    return f"{url['scheme']}{_HIDDEN if ambiguous else url['host']}{'/' + _HIDDEN if url['rest'] else ''}"
