"""Requests to Alertmanager's API."""

import base64
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from connectors.errors import UsageError
from connectors.settings.secret import Secret
from connectors.sinks.alertmanager.alert_list import LIST_BYTES, list_query
from connectors.sinks.http_request import HttpResponse, get, outcome_of_response, post
from connectors.sinks.sink import Outcome, Retry

_PATH = "/api/v2/alerts"
_API_PATH = re.compile(r"/api(/v[0-9]+(/alerts)?)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertmanagerServer:
    """The address of an Alertmanager, and the login there."""

    url: Secret
    username: str | None
    password: Secret | None
    token: Secret | None
    ca_file: Path | None

    def check(self) -> None:
        """Reads each secret. Raises UsageError if one cannot be read, or the URL is invalid."""
        check_url(self.url)
        self.secret_texts()

    def secret_texts(self) -> Sequence[str]:
        """Returns what no reason may show. Raises UsageError if a secret cannot be read."""
        return [secret.read() for secret in (self.url, self.password, self.token) if secret is not None]

    def call(self, seconds: float) -> "Call":
        """Returns what calls Alertmanager for so long. Raises UsageError if a secret cannot be read."""
        headers = {}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token.read()}"
        if self.password is not None:
            login = f"{self.username}:{self.password.read()}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        return Call(
            url=self.url.read().rstrip("/"),
            secrets=self.secret_texts(),
            until=time.monotonic() + seconds,
            options={"headers": headers, "ca_file": self.ca_file},
        )


@dataclass(frozen=True, kw_only=True)
class Call:
    """Requests that all end at one deadline."""

    url: str
    """Of Alertmanager, without a path."""
    secrets: Sequence[str]
    until: float
    options: Mapping[str, Any]

    def posted(self, document: bytes) -> tuple[HttpResponse | Retry, Outcome]:
        """Posts alerts; returns the response, and whether it is that of Alertmanager."""
        url = self.url + _PATH
        response = post(url, document, seconds=self.until - time.monotonic(), **self.options)
        return response, outcome_of_response(response, url, self.secrets, server="Alertmanager", accepted=_accepted)

    def listed(self, incident: str) -> HttpResponse | Retry:
        """Returns the response with the alerts of an incident."""
        return self.read(f"{_PATH}?{list_query(incident)}")

    def read(self, path: str) -> HttpResponse | Retry:
        """Returns the response to GET."""
        return get(self.url + path, seconds=self.until - time.monotonic(), answer_bytes=LIST_BYTES, **self.options)


def _accepted(response: HttpResponse) -> bool:
    """Returns whether a response is that of `POST /api/v2/alerts`, which has no body; a proxy may add one in JSON."""
    return response.status == 200 and (not response.text.strip() or isinstance(response.json, dict))


def url_problem(url: str) -> str | None:
    """Returns what is wrong with the URL of an Alertmanager, without its secrets; None if nothing is."""
    problem = "is not the address of an Alertmanager: write http://HOST:9093, without /api, ? or #"
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return problem
    # The API's path is added; with a part after ? or #, a browser's address was copied.
    further = parts.query or parts.fragment or _API_PATH.search(parts.path.rstrip("/"))
    return None if whole and not further else problem


def check_url(url: Secret) -> None:
    """Raises UsageError if the URL cannot be read, or is invalid."""
    problem = url_problem(url.read())
    if problem is not None:
        raise UsageError(f"url{url.place} {problem}")
