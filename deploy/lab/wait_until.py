"""Waiting with an end: every wait of the lab is bounded and says what it waited for."""

import time
from collections.abc import Callable
from typing import TypeVar

from deploy.lab.lab_errors import LabError

T = TypeVar("T")

PAUSE_S = 0.1


def until(look: Callable[[], T | None], *, timeout_s: float, what: str) -> T:
    """Looks again and again until something is seen, and returns it.

    Args:
        look: what is seen, or None (or False) while it is not there yet.
        timeout_s: how long to go on looking, seconds.
        what: the sentence's subject when it never comes, such as `a leader among the controllers`.

    Raises:
        LabError: it was not there in time.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        seen = look()
        if seen is not None and seen is not False:
            return seen
        if time.monotonic() >= deadline:
            raise LabError(f"waited {timeout_s:g} s in vain for {what}")
        time.sleep(PAUSE_S)
