"""Bounded waiting: every wait of the lab has a timeout and names what it waited for."""

import time
from collections.abc import Callable
from typing import TypeVar

from deploy.lab.lab_errors import LabError

T = TypeVar("T")

POLL_INTERVAL_S = 0.1


def wait_until(poll: Callable[[], T | None], *, timeout_s: float, what: str) -> T:
    """Calls `poll` every 0.1 s until it returns a result, and returns the result.

    Args:
        poll: returns the result, or None or False while there is none yet.
        timeout_s: seconds after which waiting ends.
        what: names the result in the error message, such as `a leader among the controllers`.

    Raises:
        LabError: there was no result in time.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        result = poll()
        if result is not None and result is not False:
            return result
        if time.monotonic() >= deadline:
            raise LabError(f"timed out after {timeout_s:g} s waiting for {what}")
        time.sleep(POLL_INTERVAL_S)
