"""One HTTP request without retries, which ends at a deadline, and the outcome of a POST.

A status of success is not enough: a proxy, a captive portal and a wrong URL have one too. Each service is recognized by
the answer that it documents, and the answer of any other server is no web page and reports no error.
"""

import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

import requests
from requests.utils import DEFAULT_CA_BUNDLE_PATH, get_auth_from_url
from urllib3.exceptions import DecodeError, HTTPError

from connectors.settings.secret import excerpt
from connectors.sinks.bounded_http import ANSWER_BYTES, PAGE_BYTES, BoundedAdapter, bounded, is_html
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry
from connectors.store.stored_json import parse_json

_PERMANENT = {400, 413, 422}
"""The document itself is rejected. Other errors below 500 concern the URL or the credentials, which can be fixed."""
LATE = "no response in time"
PAGE = "the answer is a web page, such as a proxy's login form: check the URL and the proxy"
ERROR = "the answer reports an error"
_STATUS = {
    401: "the credentials are not accepted",
    403: "permission denied",
    404: "the URL does not exist",
    405: "the method is not allowed",
    407: "the proxy requires credentials",
    410: "the URL was removed",
    413: "the document is too large",
    429: "too many requests",
}
_TAG_OF_PAGE = re.compile(r"<(!doctype html|html|head|body|title|meta|script)\b", re.IGNORECASE)
"""Some services answer text or XML as HTML."""
_FAILED = frozenset({"error", "fail", "failed", "failure"})
_FAILURE_PASSED_ON = re.compile(r"\bmessage delivery failed\b|\breturned HTTP error [45]\d\d\b", re.IGNORECASE)
"""What the webhooks of Microsoft Teams answer with status 200, and relays pass on."""
_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3})")
"""What urllib3 says of an answer of a proxy."""
_MIN_SECRET_CHARACTERS = 8
"""A shorter part of a URL is an ordinary word, not a secret."""


def tls_context(ca_file: Path | None = None) -> ssl.SSLContext:
    """Returns an SSL context that trusts the authorities in `ca_file`, or the public ones and the system's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    else:
        context.load_default_certs()
        context.load_verify_locations(DEFAULT_CA_BUNDLE_PATH)
    return context


def seconds_of(headers: Mapping[str, str]) -> float:
    """Returns the seconds from now of a Retry-After header (seconds or a date); 0 for none or an invalid one.

    A date is one of the server's clock, which its Date shows.
    """
    retry_after = headers.get("Retry-After", "")
    try:
        if retry_after.strip().isdecimal():
            return float(retry_after)
        return max(0.0, _time_of(retry_after) - (_time_of(headers["Date"]) if "Date" in headers else time.time()))
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _time_of(date: str) -> float:
    return parsedate_to_datetime(date).timestamp()


def error_text(error: Exception) -> str:
    """Returns why a server cannot be reached, without the address and the URL, which may be secret."""
    causes = list(_causes(error))
    verification = next((cause for cause in causes if isinstance(cause, ssl.SSLCertVerificationError)), None)
    if verification is not None:
        return f"the server's certificate is not trusted: {verification.verify_message}"
    for exception in causes:
        match exception:
            case TimeoutError():
                return LATE
            case ssl.SSLError():
                return f"TLS failed: {(exception.reason or 'closed').replace('_', ' ').lower()}"
            case socket.gaierror():
                missing = exception.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
                return "the name does not resolve" if missing else "the name service does not answer"
            case ConnectionRefusedError():
                return "connection refused"
            case ConnectionError():
                return "the connection was closed before the response"
            case HTTPException() | DecodeError():
                return "the connection was closed before the whole response, or the response is not HTTP"
            case OSError() if (why := _reason(exception)) is not None:
                return why
            case _:
                pass
    return f"unreachable: {type(causes[-1]).__name__}"


def _reason(error: OSError) -> str | None:
    """Returns what the system, or a proxy, says; None if neither does."""
    if error.strerror:
        return error.strerror.lower()
    refused = _TUNNEL.match(str(error))
    return None if refused is None else f"the proxy answers HTTP {refused[1]}: check the proxy and its login"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the causes, the innermost first: it is the most specific and contains the least of the URL."""
    found: list[BaseException] = []
    queue: list[object] = [error]
    while queue:
        each = queue.pop(0)
        if isinstance(each, BaseException) and each not in found:
            found.append(each)
            queue += [each.__cause__, each.__context__, getattr(each, "reason", None), *each.args]
    yield from reversed(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """The response of a server."""

    status: int
    headers: Mapping[str, str]
    """Names are matched without regard to case."""
    body: bytes
    """Its beginning."""

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode(errors="replace")

    @property
    def accepts(self) -> bool:
        """Whether the status is one of success."""
        return 200 <= self.status < 300

    @property
    def denial(self) -> str | None:
        """Why the service accepts nothing, whatever its status and its server; None if it may accept."""
        if is_html(self.headers) and _TAG_OF_PAGE.search(self.text, 0, PAGE_BYTES):
            return PAGE
        answer = self.json
        match answer:
            case {"success": False} | {"ok": False}:
                return ERROR
            case {"errcode": int(code)} if code:
                return ERROR
            case {"status": str(word)} | {"result": str(word)} if word.lower() in _FAILED:
                return ERROR
            # Apprise API, ntfy, Gotify, ...: null or empty if there is none.
            case {"error": str() | dict() | True as error} if error:
                return ERROR
            case dict() | list():
                return None
            case _:
                return ERROR if _FAILURE_PASSED_ON.search(self.text, 0, PAGE_BYTES) else None

    @property
    def json(self) -> Any:
        """The value in the body; None if it is not JSON."""
        try:
            return parse_json(self.text)
        except ValueError:
            return None


def post(
    url: str,
    body: bytes,
    *,
    seconds: float,
    headers: Mapping[str, str] | None = None,
    ca_file: Path | None = None,
    answer_bytes: int = ANSWER_BYTES,
) -> HttpResponse | Retry:
    """Sends JSON by a POST request; returns the response, or why there is none.

    `url` may contain a user name and password; `seconds`: how long all of it may take; `headers`: further ones, or
    another Content-Type; `ca_file`: certificate authorities to trust instead of the public ones; `answer_bytes`: how
    much of an accepting answer's body is read.
    """
    if seconds <= 0:
        return Retry(reason=LATE)
    more = {"Content-Type": "application/json", "User-Agent": "kraftwatch", **(headers or {})}
    with bounded(seconds, accepted_bytes=answer_bytes):
        return _response("POST", url, ca_file, data=body, headers=more, allow_redirects=False)


def get(
    url: str, *, seconds: float, headers: Mapping[str, str], ca_file: Path | None, answer_bytes: int
) -> HttpResponse | Retry:
    """Sends a GET request as `post` does."""
    if seconds <= 0:
        return Retry(reason=LATE)
    more = {"Accept": "application/json", "User-Agent": "kraftwatch", **headers}
    with bounded(seconds, accepted_bytes=answer_bytes):
        return _response("GET", url, ca_file, headers=more, allow_redirects=False)


def visit(url: str, *, seconds: float) -> HttpResponse | Retry:
    """Sends a GET request and follows redirects; returns the last response with the beginning of a web page, or why
    there is none.
    """
    with bounded(seconds, accepted_bytes=0, refused_bytes=0):
        return _response("GET", url, None, allow_redirects=True)


def _response(method: str, url: str, ca_file: Path | None, **options: Any) -> HttpResponse | Retry:
    with requests.Session() as session:
        session.mount("http://", BoundedAdapter())
        if url.lower().startswith("https:") or options["allow_redirects"]:
            # Only here: loading all authorities takes longer than a request on a local network.
            session.mount("https://", _Adapter(ca_file))
        try:
            credentials = get_auth_from_url(url)
            # Without any, requests would use credentials from ~/.netrc, which are not meant for this.
            session.auth = credentials if any(credentials) else _unchanged
            verify = True if ca_file is None else str(ca_file)
            response = session.request(method, url, verify=verify, **options)
        except requests.Timeout:
            return Retry(reason=LATE)
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            return Retry(reason=error_text(error))
        return HttpResponse(status=response.status_code, headers=response.headers, body=response.content)


def url_secrets(url: str) -> Sequence[str]:
    """Returns what of a URL may be secret: any part of it."""
    return [url, *(part for part in re.split(r"[/?&=:@]", url) if len(part) >= _MIN_SECRET_CHARACTERS)]


def outcome_of_response(
    response: HttpResponse | Retry,
    url: str,
    secrets: Sequence[str],
    *,
    server: str | None = None,
    accepted: Callable[[HttpResponse], bool] | None = None,
) -> Outcome:
    """Returns the outcome of a call of `post`; removes secrets from its reason.

    Any part of the URL may be secret. `server`: the product behind the URL, `accepted`: whether a response with a
    status of success is the one by which this product accepts a request; without them, any is that has no `denial`.
    """
    if isinstance(response, Retry):
        return response
    wrong = response.denial if accepted is None else None
    if accepted is not None and not accepted(response):
        wrong = f"the answer is not that of {server}: check the URL and the proxy"
    if response.accepts and wrong is None:
        return Delivered()
    message = excerpt(response.text, *secrets, *url_secrets(url))
    reason = f"HTTP {response.status}"
    if response.accepts:
        return Retry(reason=f"{reason}, but {wrong} ({message or 'an empty body'})")
    if response.status < 200:
        reason += ": no final answer"
    elif response.status < 400:
        reason += ": redirects are not followed, because they would receive the secrets: configure the final URL"
    elif meaning := _STATUS.get(response.status):
        reason += f": {meaning}"
    if message:
        reason += f" ({message})"
    if response.status in _PERMANENT:
        return Rejected(reason=reason)
    return Retry(reason=reason, after_s=seconds_of(response.headers))


def _unchanged(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


class _Adapter(BoundedAdapter):
    """Connections that trust the authorities of `tls_context`, also through a proxy; without retries."""

    def __init__(self, ca_file: Path | None) -> None:
        self._context = tls_context(ca_file)
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, ssl_context=self._context, **options)

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        return super().proxy_manager_for(proxy, ssl_context=self._context, **options)
