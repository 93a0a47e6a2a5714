"""Checks of a sink's address or key that need no request: mistakes that would otherwise silence the sink."""

import re
from urllib.parse import urlsplit

from connectors.errors import UsageError
from connectors.secret import Secret
from rules.formatting import plural

_ROUTING_KEY = re.compile(r"[A-Za-z0-9_-]{32}")
_API_PATH = re.compile(r"/api(/v[0-9]+(/alerts)?)?$")


def routing_key_problem(key: str) -> str | None:
    """Returns what is wrong with the form of PagerDuty's integration key, without the key; None if nothing is.

    Source: https://developer.pagerduty.com/docs/events-api-v2-overview.
    """
    if _ROUTING_KEY.fullmatch(key):
        return None
    wrong = f"has {plural(len(key), 'character')}" if len(key) != 32 else "has other characters than letters and digits"
    return (
        f"{wrong}, but an integration key has 32 letters and digits: copy it from the integration "
        '"Events API v2" of the service'
    )


def alertmanager_url_problem(url: str) -> str | None:
    """Returns what is wrong with the URL of an Alertmanager, without its secrets; None if nothing is."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "is not a URL: write http://HOST:9093"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "is not a URL: write http://HOST:9093"
    path = parts.path.rstrip("/")
    prefix = _API_PATH.sub("", path)
    # A prefix (--web.route-prefix) may be a secret.
    wanted = f"{parts.scheme}://{parts.hostname}{port}" + ("/…" if prefix else "")
    if prefix != path:
        return f"ends in the API's path, which kraftwatch adds: write {wanted}"
    if parts.query or parts.fragment:
        return f"has a part after ? or #, as a browser shows it: write {wanted}"
    return None


def check_alertmanager_url(url: Secret) -> None:
    """Checks the URL of an Alertmanager.

    Raises:
        UsageError: it cannot be read, or is not such a URL.
    """
    problem = alertmanager_url_problem(url.read())
    if problem is not None:
        raise UsageError(f"url{_file_text(url)} {problem}")


def check_routing_key(key: Secret) -> None:
    """Checks an integration key of PagerDuty.

    Raises:
        UsageError: it cannot be read, or is not such a key.
    """
    problem = routing_key_problem(key.read())
    if problem is not None:
        raise UsageError(f"routing_key{_file_text(key)} {problem}")


def _file_text(secret: Secret) -> str:
    return "" if secret.file is None else f" in {secret.file}"
