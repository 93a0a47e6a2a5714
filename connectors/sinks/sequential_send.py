"""A turn: notices told one after the other, within one deadline."""

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from connectors.sinks.sink import Outcome, Retry
from rules.notifications.notification import Notice

TellOne: TypeAlias = Callable[[Notice, float], Outcome]
"""Tells one notice within so many seconds."""

_LEAST_S = 0.05
"""With less time than that nothing is begun."""


def in_turn(notices: Sequence[Notice], tell_one: TellOne, *, deadline_s: float) -> Sequence[Outcome]:
    """One outcome for each notice, in their order.

    One notice gets half of the time at most, and after two that failed in a row, or one that was told to come back
    later, the rest is not tried: a place that is away is not hammered, and a single notice that it cannot digest
    does not hold up the others.
    """
    until = time.monotonic() + deadline_s
    outcomes: list[Outcome] = []
    failed: list[Retry] = []
    for notice in notices:
        left_s = until - time.monotonic()
        if len(failed) > 1 or (failed and failed[-1].after_s):
            outcomes.append(failed[-1])
        elif left_s < _LEAST_S:
            outcomes.append(Retry(reason="the time was up"))
        else:
            outcomes.append(tell_one(notice, min(left_s, deadline_s / 2)))
            last = outcomes[-1]
            failed = [*failed, last] if isinstance(last, Retry) else []
    return outcomes
