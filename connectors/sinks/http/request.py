"""A post: one HTTP request, made once, with a deadline for the whole of it, that follows no redirection.

The official clients of Slack send through this as well: their own transport follows redirections with the token in
hand, and waits for ever on a server that sends a byte now and then.
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

from connectors.sinks.http.deadline import Cutoff
from connectors.sinks.http.response_outcome import TOO_LATE, excerpt, failure, outcome
from connectors.sinks.sink import Outcome, Retry

_LONGEST_BYTES = 1 << 20
_SECRET_CHARACTERS = 8
"""A shorter part of a URL is a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What the server said."""

    status: int
    headers: Mapping[str, str]
    """Found whatever the case of their names."""
    text: str
    """The body's first MiB."""


def post(
    url: str, body: bytes, headers: Mapping[str, str], *, seconds: float, ca_file: Path | None = None
) -> Answered | Retry:
    """POST a body; what was answered, or why nothing was.

    Args:
        url: with a login in it or without.
        body: as it is sent.
        headers: all that are to be sent.
        seconds: the deadline.
        ca_file: authorities to trust instead of the public ones.
    """
    with Cutoff(seconds) as cutoff, requests.Session() as session:
        in_url = get_auth_from_url(url)
        # Without any, requests would look for a login in ~/.netrc, which is not meant for this.
        session.auth = in_url if any(in_url) else _as_given
        secure = url.lower().startswith("https:")
        # By the scheme: what is sent may be spelled otherwise than what was given (`https://host?key` gets its /).
        session.mount("https://" if secure else "http://", _Adapter(cutoff, ca_file, secure=secure))
        try:
            answer = session.post(
                url,
                data=body,
                headers=headers,
                timeout=seconds,
                allow_redirects=False,
                stream=True,
                verify=True if ca_file is None else str(ca_file),
            )
            text = answer.raw.read(_LONGEST_BYTES, decode_content=True).decode(errors="replace")
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            return failure(error, cutoff)
        # Cut in the middle, an answer may look whole.
        return TOO_LATE if cutoff.over else Answered(status=answer.status_code, headers=answer.headers, text=text)


def submitted(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    seconds: float,
    ca_file: Path | None = None,
    secrets: Sequence[str] = (),
) -> Outcome:
    """`post` for a place that answers by its status alone; no secret is shown, should it repeat one.

    Args:
        url: any part of which may be a secret.
        body: as it is sent.
        headers: all that are to be sent.
        seconds: the deadline.
        ca_file: authorities to trust instead of the public ones.
        secrets: those in headers.
    """
    answer = post(url, body, headers, seconds=seconds, ca_file=ca_file)
    if isinstance(answer, Retry):
        return answer
    parts = [part for part in re.split(r"[/?&=:@]", url) if len(part) >= _SECRET_CHARACTERS]
    said = "" if answer.status < 300 else excerpt(answer.text, *secrets, url, *parts)
    return outcome(answer.status, retry_after=answer.headers.get("Retry-After"), said=said)


def _as_given(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


class _Adapter(HTTPAdapter):
    """Connections that end with the cutoff, none of them tried twice."""

    def __init__(self, cutoff: Cutoff, ca_file: Path | None, *, secure: bool) -> None:
        self._cutoff = cutoff
        self._ca_file = ca_file
        self._secure = secure
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        cutoff = self._cutoff

        class Connection(HTTPConnection):
            def connect(self) -> None:
                super().connect()
                if self.sock is not None:
                    cutoff.watch(self.sock)

        class Pool(HTTPConnectionPool):
            ConnectionCls = Connection

        if self._secure:
            # Reading all authorities takes longer than a request on a local network.
            options["ssl_context"] = cutoff.context(self._ca_file)
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": Pool, "https": HTTPSConnectionPool}

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        return super().proxy_manager_for(proxy, ssl_context=self._cutoff.context(self._ca_file), **options)
