"""Waits for a condition with a timeout; tests use no other sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SLOW_MACHINE_FACTOR = 4
"""Every timeout is multiplied by this factor, for machines that are slower than the author's."""


def eventually(check: Callable[[], T], *, within_s: float, every_s: float = 0.1) -> T:
    """Calls `check` until it raises no AssertionError and does not return False; returns its result.

    Args:
        check: the condition.
        within_s: seconds that are ample on an idle machine; the timeout is `SLOW_MACHINE_FACTOR` times as long.
        every_s: seconds between two calls.

    Raises:
        AssertionError: the last one of `check`, after the timeout.
    """
    timeout_s = SLOW_MACHINE_FACTOR * within_s
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            result = check()
            assert result is not False, f"the condition was False for {timeout_s:g} s"
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        else:
            return result
        time.sleep(every_s)
