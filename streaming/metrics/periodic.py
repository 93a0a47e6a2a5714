"""A thread that sends something again and again: the dead-man heartbeat, and the metrics by OTLP."""

import threading
import time
from abc import ABC, abstractmethod
from typing import Self

CHECK_EVERY_S = 1.0
"""How often the thread checks whether something is due."""


class Periodic(ABC):
    """Sends in its own thread while entered: at once, and again an interval after the end of the call before."""

    def __init__(self, name: str) -> None:
        """`name` of the thread."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # The thread is not joined: a server that hangs must not delay the end of the job.
        self._stopping.set()

    @abstractmethod
    def _every_s(self) -> float | None:
        """Returns the interval, None while nothing is to be sent.

        It is read each second, because a running job may receive another configuration.
        """

    @abstractmethod
    def _send(self) -> None:
        """Sends once; raises nothing."""

    def _run(self) -> None:
        ended: float | None = None
        while True:
            every_s = self._every_s()
            if every_s is not None and (ended is None or time.monotonic() - ended >= every_s):
                self._send()
                # The interval begins at the end of a call, so a slow server is not called more often.
                ended = time.monotonic()
            if self._stopping.wait(CHECK_EVERY_S if every_s is None else min(CHECK_EVERY_S, every_s)):
                return
