"""An answer: what comes of an HTTP request, whichever library made it, as an outcome."""

import ssl
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

from connectors.sinks.error_redaction import redact
from connectors.sinks.evidence_format import visible
from connectors.sinks.http.deadline import Cutoff
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry

_NEVER_TAKEN = {400, 413, 422}
"""The document itself is refused. All else below 500 is the address or the login: mended, it takes what waits."""
TOO_LATE = Retry(reason="it has not answered in time")
_LONGEST_SAID = 120
_STATUS = {
    401: "the login is not accepted",
    403: "the login is not allowed to",
    404: "there is no such address",
    405: "that address takes no POST",
    407: "the proxy wants a login",
    410: "that address is gone for good",
    413: "the document is too large",
    429: "too many requests",
}


def outcome(status: int, *, retry_after: str | None = None, said: str = "") -> Outcome:
    """What a status means.

    Args:
        status: of the answer.
        retry_after: that header.
        said: what the place says about it, redacted.
    """
    if 200 <= status < 300:
        return Delivered()
    reason = f"HTTP {status}"
    if 300 <= status < 400:
        reason += ": it sends us to another address, where secrets do not follow: give the final one"
    elif meaning := _STATUS.get(status):
        reason += f": {meaning}"
    if said:
        reason += f" ({said})"
    if status in _NEVER_TAKEN:
        return Rejected(reason=reason)
    return Retry(reason=reason, after_s=seconds_of(retry_after))


def seconds_of(retry_after: str | None) -> float:
    """A Retry-After header, seconds or a date, from now; 0 for none, and for one that makes no sense."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0


def excerpt(text: str, *secrets: str) -> str:
    """The beginning of what a place said, on one line, redacted, nothing in it a control code."""
    line = visible(" ".join(redact(text, *secrets).split()))
    return line if len(line) <= _LONGEST_SAID else f"{line[: _LONGEST_SAID - 1]}…"


def failure(error: Exception, cutoff: Cutoff) -> Retry:
    """No answer at all: why, without the address, which may be a secret."""
    if cutoff.over:
        return TOO_LATE
    causes = list(_causes(error))
    verification = next((each for each in causes if isinstance(each, ssl.SSLCertVerificationError)), None)
    if verification is not None:
        return Retry(reason=f"its certificate is not trusted: {verification.verify_message}")
    for each in causes:
        match each:
            case TimeoutError():
                return TOO_LATE
            case ssl.SSLError():
                return Retry(reason=f"TLS failed: {(each.reason or 'closed').replace('_', ' ').lower()}")
            case ConnectionRefusedError():
                return Retry(reason="the connection is refused")
            case ConnectionError():
                return Retry(reason="the connection broke before it answered")
            case OSError(strerror=str(why)) if why:
                return Retry(reason=f"it cannot be reached: {why.lower()}")
            case _:
                pass
    return Retry(reason=f"it cannot be reached: {type(causes[-1]).__name__}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The innermost first: it says most, and least of the address."""
    seen: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, BaseException) and each not in seen:
            seen.append(each)
            waiting += [each.__cause__, each.__context__, getattr(each, "reason", None), *each.args]
    yield from reversed(seen)
