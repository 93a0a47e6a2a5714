"""Waiting for what must come, within a bound: never a bare sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SLOWER = 4
"""How many times slower than the machine that a bound was chosen on another one may be."""


def eventually(check: Callable[[], T], *, within_s: float, every_s: float = 0.1) -> T:
    """Call `check` until it raises no AssertionError and is not False; in the end its last one is raised.

    Args:
        check: what must come to be true; `eventually` returns what it returned.
        within_s: seconds that are ample on a machine with little else to do; a slower one has `SLOWER` times as many.
        every_s: seconds from one call to the next.
    """
    allowed_s = SLOWER * within_s
    deadline = time.monotonic() + allowed_s
    while True:
        try:
            seen = check()
            assert seen is not False, f"it stayed False for {allowed_s:g} s"
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        else:
            return seen
        time.sleep(every_s)
