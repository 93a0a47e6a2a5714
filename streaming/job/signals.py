"""Being told to stop: SIGINT and SIGTERM as a question that loops ask."""

import signal
import threading
from types import FrameType, TracebackType


class StopSignal:
    """Whether SIGINT or SIGTERM has come. Armed on entering; the former handlers are back on leaving."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def __enter__(self) -> "StopSignal":
        self.arm()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def arm(self) -> None:
        """Take the signals (again: others take them too)."""
        for number in self._former:
            signal.signal(number, self._told)

    def is_set(self) -> bool:
        """Whether we were told to stop."""
        return self._stop.is_set()

    def _told(self, signum: int, frame: FrameType | None) -> None:
        self._stop.set()
