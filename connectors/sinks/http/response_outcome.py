"""Translates the result of an HTTP request, of any library, to an outcome."""

import ssl
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

from connectors.sinks.error_redaction import redact
from connectors.sinks.evidence_format import visible
from connectors.sinks.http.deadline import CallDeadline
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry

_PERMANENT = {400, 413, 422}
"""The document itself is rejected. Other errors below 500 concern the URL or the credentials, which can be fixed."""
DEADLINE_EXCEEDED = Retry(reason="no response in time")
_MAX_MESSAGE = 120
_STATUS = {
    401: "the credentials are not accepted",
    403: "permission denied",
    404: "the URL does not exist",
    405: "the URL does not accept POST",
    407: "the proxy requires credentials",
    410: "the URL was removed",
    413: "the document is too large",
    429: "too many requests",
}


def outcome_of_status(status: int, *, retry_after: str | None = None, message: str = "") -> Outcome:
    """Returns the outcome of a response.

    Args:
        status: the response's status.
        retry_after: the header of that name.
        message: what the server says about it, redacted.
    """
    if 200 <= status < 300:
        return Delivered()
    reason = f"HTTP {status}"
    if 300 <= status < 400:
        reason += ": redirects are not followed, because they would receive the secrets: configure the final URL"
    elif meaning := _STATUS.get(status):
        reason += f": {meaning}"
    if message:
        reason += f" ({message})"
    if status in _PERMANENT:
        return Rejected(reason=reason)
    return Retry(reason=reason, after_s=seconds_of(retry_after))


def seconds_of(retry_after: str | None) -> float:
    """Returns the seconds from now of a Retry-After header (seconds or a date); 0 for none or an invalid one."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0


def excerpt(text: str, *secrets: str) -> str:
    """Returns the beginning of a server's message on one line, redacted and without control characters."""
    line = visible(" ".join(redact(text, *secrets).split()))
    return line if len(line) <= _MAX_MESSAGE else f"{line[: _MAX_MESSAGE - 1]}…"


def outcome_of_error(error: Exception, deadline: CallDeadline) -> Retry:
    """Returns why there is no response, without the URL, which may be secret."""
    if deadline.exceeded:
        return DEADLINE_EXCEEDED
    causes = list(_causes(error))
    verification = next((each for each in causes if isinstance(each, ssl.SSLCertVerificationError)), None)
    if verification is not None:
        return Retry(reason=f"the server's certificate is not trusted: {verification.verify_message}")
    for each in causes:
        match each:
            case TimeoutError():
                return DEADLINE_EXCEEDED
            case ssl.SSLError():
                return Retry(reason=f"TLS failed: {(each.reason or 'closed').replace('_', ' ').lower()}")
            case ConnectionRefusedError():
                return Retry(reason="connection refused")
            case ConnectionError():
                return Retry(reason="the connection was closed before the response")
            case OSError(strerror=str(why)) if why:
                return Retry(reason=f"unreachable: {why.lower()}")
            case _:
                pass
    return Retry(reason=f"unreachable: {type(causes[-1]).__name__}")


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
