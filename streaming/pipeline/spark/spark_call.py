"""Calls of Spark in threads of their own: where Java hangs, or a file system behind it, a call does not return."""

import logging
import threading
import time
import warnings
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

_STOP_S: Final = 20.0
"""How long a stop may take: a supervisor kills the job after 30 s."""


class SparkCall:
    """A call that is in progress, or has ended."""

    def __init__(self, name: str, call: Callable[[], object]) -> None:
        """Begins the call, in a thread of this name."""
        self._call = call
        self._problem: Exception | None = None
        self._began = time.monotonic()
        self._ended = threading.Event()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def for_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    def wait(self, seconds: float) -> bool:
        """Returns whether it has ended, after this time at most. Raises the error that has ended it."""
        ended = self._ended.wait(seconds)
        if self._problem is not None:
            raise self._problem
        return ended

    def _run(self) -> None:
        try:
            self._call()
        except Exception as problem:  # noqa: BLE001 - it is raised in the thread that waits
            self._problem = problem
        self._ended.set()


def stop_ignoring_errors(stop: Callable[[], None]) -> bool:
    """Stops what may be ending by itself already; the checkpoint does not depend on a clean stop.

    Returns whether it has ended in time: a call of a Java that hangs does not return.
    """

    def run() -> None:
        # Of a Java that ends by itself meanwhile, Spark warns on stderr.
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            stop()

    try:
        return SparkCall("stop", run).wait(_STOP_S)
    except Exception as problem:  # noqa: BLE001 - an error while stopping must not hide the reason for the stop
        log.debug("while stopping: %s", problem)
        return True
