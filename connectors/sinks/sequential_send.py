"""Sends notifications one after the other within one deadline."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from connectors.secret import redact
from connectors.sinks.sink import Outcome, Rejected, Retry, minimal
from rules.notifications.notification import Notification

_LOG = logging.getLogger(__name__)
_Document = TypeVar("_Document")

_MIN_TIME_S = 0.05
"""With less time left, nothing is sent."""


def send_in_order(
    notifications: Sequence[Notification],
    format_one: Callable[[Notification], _Document],
    send_one: Callable[[Notification, _Document, float], Outcome],
    *,
    deadline_s: float,
) -> Sequence[Outcome]:
    """Returns one outcome for each notification, in the same order.

    Each is formatted alone; one that cannot be formatted becomes a minimal document. One notification gets at most half
    of the time, and none is begun with less time left than the one before it took: a request that is cut off may have
    been accepted. After two consecutive failures, or one with a Retry-After, the rest is not sent: a service that is
    down is not flooded with requests, and a single notification that it cannot process does not block the others.

    Args:
        notifications: what to send.
        format_one: returns the document of a notification.
        send_one: sends a document within so many seconds.
        deadline_s: the time for all of them.
    """
    until = time.monotonic() + deadline_s
    outcomes: list[Outcome] = []
    failed: list[Retry] = []
    needed_s = _MIN_TIME_S
    for notification in notifications:
        began = time.monotonic()
        left_s = until - began
        if len(failed) > 1 or (failed and failed[-1].after_s):
            outcomes.append(replace(failed[-1], attempted=False))
        elif left_s < needed_s:
            outcomes.append(Retry(reason="deadline exceeded", attempted=False))
        else:
            outcomes.append(_sent(notification, format_one, send_one, min(left_s, deadline_s / 2)))
            needed_s = max(_MIN_TIME_S, time.monotonic() - began)
            match outcomes[-1]:
                case Retry() as failure:
                    failed.append(failure)
                case Rejected(reason=reason):
                    failed.append(Retry(reason=reason))
                case _:
                    failed = []
    return outcomes


def _sent(
    notification: Notification,
    format_one: Callable[[Notification], _Document],
    send_one: Callable[[Notification, _Document, float], Outcome],
    left_s: float,
) -> Outcome:
    try:
        try:
            document = format_one(notification)
        except Exception as error:  # noqa: BLE001 - whatever it contains, people must be notified
            root = notification.root
            why = redact(f"{type(error).__name__}: {error}")
            _LOG.warning("%s of %s cannot be formatted, a minimal document is sent: %s", root.rule, root.cluster, why)
            notification = minimal(notification)
            document = format_one(notification)
        return send_one(notification, document, left_s)
    except Exception as error:  # noqa: BLE001 - one notification must not stop the others
        return Retry(reason=redact(f"{type(error).__name__}: {error}"))
