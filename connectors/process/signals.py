"""Signals as flags that a main loop reads."""

import signal
import threading
from typing import Self

STOP = (signal.SIGINT, signal.SIGTERM)


class SignalFlag(threading.Event):
    """Set once one of the signals has arrived. Entering installs the handlers; leaving restores the former ones."""

    def __init__(self, *numbers: signal.Signals) -> None:
        super().__init__()
        self._former = {number: signal.getsignal(number) for number in numbers}

    def __enter__(self) -> Self:
        self.install()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def install(self) -> None:
        """Installs the handlers, again where another library (Spark) has replaced them."""
        for number in self._former:
            signal.signal(number, lambda *_: self.set())
