"""Waiting for what must come, within a bound: never a bare sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(check: Callable[[], T], *, within_s: float, every_s: float = 0.1) -> T:
    """Call `check` until it raises no AssertionError and is not False; after `within_s` seconds its last one is raised.

    Returns what `check` returned.
    """
    deadline = time.monotonic() + within_s
    while True:
        try:
            seen = check()
            assert seen is not False, f"it stayed False for {within_s:g} s"
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        else:
            return seen
        time.sleep(every_s)
