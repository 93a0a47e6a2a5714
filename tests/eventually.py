"""Waiting for what must come, within a bound: never a bare sleep."""

import time
from collections.abc import Callable


def eventually(check: Callable[[], None], *, within_s: float, every_s: float = 0.1) -> None:
    """Call `check` until it raises no AssertionError; after `within_s` seconds its last one is raised."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            check()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        else:
            return
        time.sleep(every_s)
