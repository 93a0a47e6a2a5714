"""FollowerThread: what a sink learns of people in its service, in a thread of its own, while the job takes it."""

import threading
from abc import ABC, abstractmethod

from connectors.sinks.sink import Responses


class FollowerThread(ABC):
    """Runs while it is given where responses go: the job that notifies follows, a standby does not."""

    def __init__(self, name: str) -> None:
        """`name` of the sink."""
        self._name = name
        self._responses: Responses | None = None
        self._ended = threading.Event()
        """Set when the newest thread has to end."""

    def follow(self, responses: Responses | None) -> None:
        """As `FollowedSink.follow`."""
        before, self._responses = self._responses, responses
        if responses is None:
            self._ended.set()
        elif before is None:
            self._ended = threading.Event()
            threading.Thread(target=self._run, args=(self._ended,), name=f"follow {self._name}", daemon=True).start()

    @abstractmethod
    def _run(self, ended: threading.Event) -> None:
        """Works until the event is set, whatever fails."""
