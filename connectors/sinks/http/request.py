"""One HTTP POST request without retries or redirects, with one deadline for the whole request.

The official Slack client also uses this transport: its own one follows redirects with the token, and waits without
limit for a server that sends one byte now and then.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.utils import get_auth_from_url
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

from connectors.sinks.http.deadline import CallDeadline
from connectors.sinks.http.response_outcome import DEADLINE_EXCEEDED, excerpt, outcome_of_error, outcome_of_status
from connectors.sinks.sink import Outcome, Retry

_MAX_RESPONSE_BYTES = 1 << 20
_MIN_SECRET_CHARACTERS = 8
"""A shorter part of a URL is an ordinary word, not a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """The response of a server."""

    status: int
    headers: Mapping[str, str]
    """Names are matched without regard to case."""
    text: str
    """The first MiB of the body."""


def post(
    url: str, body: bytes, headers: Mapping[str, str], *, seconds: float, ca_file: Path | None = None
) -> HttpResponse | Retry:
    """Sends a POST request; returns the response, or why there is none.

    Args:
        url: may contain a user name and password.
        body: sent unchanged.
        headers: all headers to send.
        seconds: the deadline.
        ca_file: certificate authorities to trust instead of the public ones.
    """
    with CallDeadline(seconds) as deadline, requests.Session() as session:
        credentials = get_auth_from_url(url)
        # Without any, requests would use credentials from ~/.netrc, which are not meant for this.
        session.auth = credentials if any(credentials) else _unchanged
        secure = url.lower().startswith("https:")
        # By scheme: the URL that is sent may be spelled differently (`https://host?key` gets a /).
        session.mount("https://" if secure else "http://", _Adapter(deadline, ca_file, secure=secure))
        try:
            response = session.post(
                url,
                data=body,
                headers=headers,
                timeout=seconds,
                allow_redirects=False,
                stream=True,
                verify=True if ca_file is None else str(ca_file),
            )
            text = response.raw.read(_MAX_RESPONSE_BYTES, decode_content=True).decode(errors="replace")
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            return outcome_of_error(error, deadline)
        # A response that was cut off by the deadline may look complete.
        if deadline.exceeded:
            return DEADLINE_EXCEEDED
        return HttpResponse(status=response.status_code, headers=response.headers, text=text)


def post_for_outcome(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    seconds: float,
    ca_file: Path | None = None,
    secrets: Sequence[str] = (),
) -> Outcome:
    """Sends a POST request to a server whose status decides the outcome; removes secrets from its reason.

    Args:
        url: any part of it may be secret.
        body: sent unchanged.
        headers: all headers to send.
        seconds: the deadline.
        ca_file: certificate authorities to trust instead of the public ones.
        secrets: the secrets in the headers.
    """
    response = post(url, body, headers, seconds=seconds, ca_file=ca_file)
    if isinstance(response, Retry):
        return response
    url_parts = [part for part in re.split(r"[/?&=:@]", url) if len(part) >= _MIN_SECRET_CHARACTERS]
    message = "" if response.status < 300 else excerpt(response.text, *secrets, url, *url_parts)
    return outcome_of_status(response.status, retry_after=response.headers.get("Retry-After"), message=message)


def _unchanged(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


class _Adapter(HTTPAdapter):
    """Connections that end at the deadline, without retries."""

    def __init__(self, deadline: CallDeadline, ca_file: Path | None, *, secure: bool) -> None:
        self._deadline = deadline
        self._ca_file = ca_file
        self._secure = secure
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        deadline = self._deadline

        class SupervisedConnection(HTTPConnection):
            def connect(self) -> None:
                super().connect()
                if self.sock is not None:
                    deadline.supervise(self.sock)

        class Pool(HTTPConnectionPool):
            ConnectionCls = SupervisedConnection

        if self._secure:
            # Only here: loading all authorities takes longer than a request on a local network.
            options["ssl_context"] = deadline.context(self._ca_file)
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": Pool, "https": HTTPSConnectionPool}

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        return super().proxy_manager_for(proxy, ssl_context=self._deadline.context(self._ca_file), **options)
