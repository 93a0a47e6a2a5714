"""SIGINT and SIGTERM as a flag that the job's main loop reads."""

import signal
import threading
from types import FrameType


class StopSignal:
    """Set once SIGINT or SIGTERM has arrived. Entering installs the handlers; leaving restores the former ones."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def __enter__(self) -> "StopSignal":
        self.install()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def install(self) -> None:
        """Installs the handlers, again where another library (Spark) has replaced them."""
        for number in self._former:
            signal.signal(number, self._received)

    def is_set(self) -> bool:
        """Whether one of the signals has arrived."""
        return self._stop.is_set()

    def wait(self, seconds: float) -> bool:
        """Waits that long, or until one of the signals has arrived; returns whether one has."""
        return self._stop.wait(seconds)

    def _received(self, signum: int, frame: FrameType | None) -> None:
        self._stop.set()
