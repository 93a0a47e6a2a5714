"""Recording: rows to the recorder, published at once when they matter and once a second when they do not."""

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from connectors.errors import JournalError
from connectors.kafka.event_loop import Loop
from connectors.observation import Observation


class Appender(Protocol):
    """What is used of `connectors.journal.writer.Recorder`."""

    def append(self, observations: list[Observation], /) -> None:
        """Take rows in."""

    def publish(self) -> int:
        """Put them on the disk and show them."""


class Recording:
    """All clusters' rows, in the order they were seen.

    A journal that cannot be written ends the gatherer: `failure` then says why.
    """

    def __init__(
        self,
        recorder: Appender,
        loop: Loop,
        *,
        failed: Callable[[], None],
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """`before` is called before each publication, `failed` once, when the journal cannot be written."""
        self._recorder = recorder
        self._loop = loop
        self._failed = failed
        self._before = before
        self._waiting = False
        self._published = True
        self.failure: JournalError | None = None
        self.rows = 0
        """Rows appended since the start."""
        self.publications = 0
        self.unseen: Counter[tuple[str, str, str]] = Counter()
        """Looks that failed since the start, by cluster, sight and reason."""
        self._wished_ms: dict[str, int] = {}

    def wish(self, cluster: str, at_ms: int) -> None:
        """Hold the first row of this cluster that is observed at `at_ms` or later for urgent."""
        self._wished_ms[cluster] = at_ms

    def add(self, row: Observation, *, urgent: bool) -> None:
        """Append a row. An urgent one is published before the loop sleeps, with all that came before it."""
        if self.failure is not None or self._loop.ending:
            return  # what fails while we go says nothing of the cluster
        self._attempt(lambda: self._recorder.append([row]))
        self.rows += 1
        self._published = False
        wished_ms = self._wished_ms.get(row.cluster)
        if wished_ms is not None and row.observed_at_ms >= wished_ms:
            del self._wished_ms[row.cluster]
            urgent = True
        if urgent and not self._waiting:
            # After whatever else this turn of the loop brings: several rows, one sync.
            self._waiting = True
            self._loop.soon(self.publish)

    def publish(self) -> None:
        """Publish what was appended, if anything was."""
        self._waiting = False
        if not self._published and self.failure is None:
            self._published = True
            self.publications += 1
            self._before()
            self._attempt(self._recorder.publish)

    def _attempt(self, step: Callable[[], object]) -> None:
        try:
            step()
        except JournalError as problem:
            self.failure = problem
            self._failed()
