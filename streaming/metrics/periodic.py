"""A thread that sends something again and again: the dead-man heartbeat, and the metrics by OTLP."""

import threading
import time
from collections.abc import Callable
from typing import Self

CHECK_EVERY_S = 1.0
"""How often the thread checks whether something is due."""


class Periodic:
    """Calls `send` in its own thread while entered: at once, and again an interval after the end of the call before."""

    def __init__(self, name: str, *, every_s: Callable[[], float | None], send: Callable[[], None]) -> None:
        """`every_s`: the interval, None while nothing is to be sent; it is read each second, because a running job may
        receive another configuration. `send` raises nothing.
        """
        self._every_s, self._call = every_s, send
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # The thread is not joined: a server that hangs must not delay the end of the job.
        self._stopping.set()

    def _run(self) -> None:
        ended: float | None = None
        while True:
            every_s = self._every_s()
            if every_s is not None and (ended is None or time.monotonic() - ended >= every_s):
                self._call()
                # The interval begins at the end of a call, so a slow server is not called more often.
                ended = time.monotonic()
            if self._stopping.wait(CHECK_EVERY_S if every_s is None else min(CHECK_EVERY_S, every_s)):
                return
