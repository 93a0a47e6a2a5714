"""Sends notifications one after the other within one deadline."""

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from connectors.sinks.sink import Outcome, Retry
from rules.notifications.notification import Notification

SendOne: TypeAlias = Callable[[Notification, float], Outcome]
"""Sends one notification within so many seconds."""

_MIN_TIME_S = 0.05
"""With less time left, nothing is sent."""


def send_in_order(notifications: Sequence[Notification], send_one: SendOne, *, deadline_s: float) -> Sequence[Outcome]:
    """Returns one outcome for each notification, in the same order.

    One notification gets at most half of the time. After two consecutive failures, or one with a Retry-After, the
    rest is not sent: a service that is down is not flooded with requests, and a single notification that it cannot
    process does not block the others.
    """
    until = time.monotonic() + deadline_s
    outcomes: list[Outcome] = []
    failed: list[Retry] = []
    for notification in notifications:
        left_s = until - time.monotonic()
        if len(failed) > 1 or (failed and failed[-1].after_s):
            outcomes.append(failed[-1])
        elif left_s < _MIN_TIME_S:
            outcomes.append(Retry(reason="deadline exceeded"))
        else:
            outcomes.append(send_one(notification, min(left_s, deadline_s / 2)))
            last = outcomes[-1]
            failed = [*failed, last] if isinstance(last, Retry) else []
    return outcomes
