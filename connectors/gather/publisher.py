"""Appends rows to the journal; publishes urgent rows at once, others once a second, quiet ones every two seconds.

A quiet row shows nothing new but that time passes. It waits only until the time up to which the newest evaluation has
said that time alone changes nothing (`let_wait`): without an evaluation every row is published within a second.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from connectors.errors import JournalError
from connectors.kafka.event_loop import EventLoop
from connectors.observations.observation import Observation, Urgency

_MOST_BYTES: Final = 4 * 1024 * 1024
"""So much payload is published at once: until then, the rows are in the memory of the process."""
_QUIET_S: Final = 2
"""Seconds after which quiet rows are published."""


class Appender(Protocol):
    """The methods used of `connectors.store.journal_writer.JournalWriter`."""

    def append(self, observations: list[Observation], /) -> None:
        """Appends rows."""

    def publish(self) -> int:
        """Stores the rows on the disk and makes them visible to readers."""


class Publisher:
    """The rows of all clusters, in the order of observation.

    If the journal cannot be written, the gatherer ends; `failure` is then the error.
    """

    def __init__(
        self,
        journal: Appender,
        loop: EventLoop,
        *,
        on_failure: Callable[[], None],
        before_publish: Callable[[], None] = lambda: None,
    ) -> None:
        """`before_publish` is called before each publication, `on_failure` once, if the journal cannot be written."""
        self._journal = journal
        self._loop = loop
        self._on_failure = on_failure
        self._before_publish = before_publish
        self._publish_scheduled = False
        self._all_published = True
        self._all_quiet = True
        """Whether all rows that are not published yet may wait."""
        self._seconds = 0
        """Since the newest publication."""
        self._appended_bytes = 0
        """Payload that is not published yet."""
        self.failure: JournalError | None = None
        self.rows = 0
        """Rows appended since the start."""
        self.publications = 0
        self.failures: Counter[tuple[str, str, str]] = Counter()
        """Failed observations since the start, by cluster, source and reason."""
        self._urgent_from_ms: dict[str, int] = {}
        self._quiet_until_ms: dict[str, int] = {}
        self._newest_ms: dict[str, int] = {}
        """The time of each cluster's newest row."""

    def publish_first_row_from(self, cluster: str, at_ms: int) -> bool:
        """Publishes at once the first row of this cluster that is observed at `at_ms` or later.

        Returns False if there is such a row already: a job that is behind asks for a time that has passed.
        """
        if self._newest_ms.get(cluster, -1) > at_ms:
            self._publish_soon()
            return False
        self._urgent_from_ms[cluster] = at_ms
        return True

    def let_wait(self, cluster: str, until_ms: int) -> None:
        """Lets this cluster's quiet rows that are observed before `until_ms` wait for a second more."""
        self._quiet_until_ms[cluster] = until_ms

    def add(self, row: Observation) -> None:
        """Appends a row. An urgent row is published, with all earlier rows, before the loop sleeps."""
        if self.failure is not None or self._loop.ending:
            return  # a failure during the shutdown is no observation of the cluster
        self._attempt(lambda: self._journal.append([row]))
        self._newest_ms[row.cluster] = row.observed_at_ms
        self.rows += 1
        self._all_published = False
        urgent = row.urgency is Urgency.URGENT
        urgent_from_ms = self._urgent_from_ms.get(row.cluster)
        if urgent_from_ms is not None and row.observed_at_ms >= urgent_from_ms:
            del self._urgent_from_ms[row.cluster]
            urgent = True
        if row.urgency is not Urgency.QUIET or row.observed_at_ms >= self._quiet_until_ms.get(row.cluster, 0):
            self._all_quiet = False
        self._appended_bytes += len(row.payload)
        if urgent or self._appended_bytes >= _MOST_BYTES:
            self._publish_soon()

    def _publish_soon(self) -> None:
        if not self._publish_scheduled:
            # Scheduled behind the other callbacks of this loop iteration, so that several rows need one sync.
            self._publish_scheduled = True
            self._loop.call_soon(self.publish)

    def publish_regularly(self) -> None:
        """Publishes the appended rows unless they may wait; it is called once a second."""
        self._seconds += 1
        if not self._all_quiet or self._seconds >= _QUIET_S:
            self.publish()

    def publish(self) -> None:
        """Publishes the appended rows, if there are any."""
        self._publish_scheduled = False
        self._all_quiet, self._seconds = True, 0
        if not self._all_published and self.failure is None:
            self._all_published, self._appended_bytes = True, 0
            self.publications += 1
            self._before_publish()
            self._attempt(self._journal.publish)

    def _attempt(self, step: Callable[[], object]) -> None:
        try:
            step()
        except JournalError as problem:
            self.failure = problem
            self._on_failure()
