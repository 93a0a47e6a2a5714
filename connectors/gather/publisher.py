"""Appends rows to the journal; publishes urgent rows at once, others within two seconds, quiet ones up to ten later.

Each publication begins a micro-batch, which costs the same for one row as for many. So while changes keep coming, rows
that are not urgent are published with them; and the first change of a cluster waits for up to a second if that of
another one was published just before. What is due is published at once.

A quiet row shows nothing new but that time passes. It waits in memory until the next row of its cluster that is not
quiet, and only until the time up to which the newest evaluation has said that time alone changes nothing (`let_wait`):
of a cluster without an evaluation since its newest change, every row is published within a second. The quiet rows of
some clusters are published together, because a batch costs the same for one cluster as for some; those of more, in
another second, because a change waits while a batch is evaluated.
"""

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

from connectors.errors import JournalError, UnwritableJournalError
from connectors.kafka.event_loop import EventLoop
from connectors.observations.observation import Observation, Urgency

_LOG = logging.getLogger(__name__)
_MOST_BYTES: Final = 4 * 1024 * 1024
"""So much payload is published at once: until then, the rows are in the memory of the process."""
_MOST_UNWRITTEN: Final = 64 * 1024 * 1024
"""So much payload waits for a disk that is full; then the gatherer ends, and a new one reads the logs again."""
_EVERY_S: Final = 9
"""After so many periodic publications the quiet rows of a cluster are published: they are ten seconds old at most."""
TOGETHER: Final = 30
"""Of so many clusters together: some tenths of a second of evaluation."""
_ANSWERED_MS: Final = 2_000
"""How long quiet rows wait for the evaluation of the quiet rows before them: no rule is evaluated sooner again."""
_JUST_NOW_S: Final = 0.9
"""So soon after a publication rows that are not urgent wait for the next one."""
_APART_S: Final = 0.7
"""The time between two publications that begin with the first change of a cluster."""
_FOLLOWS_S: Final = 2.0
"""A change that follows another one of its cluster so soon has waited already, before it was read (log_follower)."""


class Appender(Protocol):
    """The methods used of `connectors.store.journal_writer.JournalWriter`."""

    def append(self, observations: list[Observation], /) -> None:
        """Appends rows."""

    def publish(self) -> int:
        """Stores the rows on the disk and makes them visible to readers."""


class Publisher:
    """The rows of all clusters, in the order of observation.

    While the disk of the journal is full, or fails, rows wait in memory, and are published once it takes them. If the
    journal cannot be written for another reason, the gatherer ends; `failure` is then the error.
    """

    def __init__(
        self,
        journal: Appender,
        loop: EventLoop,
        *,
        on_failure: Callable[[], None],
        before_publish: Callable[[], None] = lambda: None,
        on_full_disk: Callable[[], None] = lambda: None,
    ) -> None:
        """Publishes nothing yet.

        `before_publish` is called before each publication, `on_full_disk` after one that a full disk did not take,
        `on_failure` once, if the journal cannot be written for another reason.
        """
        self._journal = journal
        self._loop = loop
        self._on_failure = on_failure
        self._before_publish, self._on_full_disk = before_publish, on_full_disk
        self._publish_scheduled = False
        self._published_s = self._changes_published_s = -math.inf
        """When rows, and when urgent rows, were last published, by the loop's clock."""
        self._urgent_appended = False
        """Whether an urgent row is appended and not published."""
        self._urgent_s: dict[str, float] = {}
        """When the newest urgent row of a cluster came."""
        self._all_published = True
        """Whether there are no appended rows."""
        self._waiting: dict[str, list[Observation]] = {}
        """Quiet rows by cluster, which are not appended yet."""
        self._seconds = 0
        """Periodic publications so far."""
        self._turns: dict[str, int] = {}
        """In which of the seconds quiet rows of a cluster are published."""
        self._time_has_come: set[str] = set()
        """Clusters of which a waiting row may show more than that time passes."""
        self._waiting_bytes = self._appended_bytes = 0
        """Payload of the rows that wait, and of those that are appended and not published."""
        self.failure: JournalError | None = None
        self._unwritable = False
        """The disk did not take the newest publication: the next one is a periodic one."""
        self.rows = 0
        """Rows added since the start."""
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
            self._append_waiting([cluster])
            self._publish_soon()
            return False
        self._urgent_from_ms[cluster] = at_ms
        return True

    def let_wait(self, cluster: str, until_ms: int) -> None:
        """Lets quiet rows of a cluster wait that are observed before `until_ms`, until one shows a change; 0: none."""
        self._quiet_until_ms[cluster] = until_ms
        if any(row.observed_at_ms >= until_ms for row in self._waiting.get(cluster, ())[-1:]):
            self._time_has_come.add(cluster)

    def add(self, row: Observation) -> None:
        """Takes a row. An urgent row is published, with all earlier rows of its cluster, before the loop sleeps."""
        if self.failure is not None or self._loop.ending:
            return  # a failure during the shutdown is no observation of the cluster
        cluster = row.cluster
        self._newest_ms[cluster] = row.observed_at_ms
        self._turns.setdefault(cluster, len(self._turns) // TOGETHER % _EVERY_S)
        self.rows += 1
        self._waiting_bytes += len(row.payload)
        urgent = row.urgency is Urgency.URGENT
        waits_s = self._wait_s(cluster) if urgent else 0.0
        urgent_from_ms = self._urgent_from_ms.get(cluster)
        if urgent_from_ms is not None and row.observed_at_ms >= urgent_from_ms:
            del self._urgent_from_ms[cluster]
            urgent, waits_s = True, 0.0
        self._waiting.setdefault(cluster, []).append(row)
        if row.urgency is not Urgency.QUIET:
            # What was evaluated before it says nothing of what follows it.
            self._quiet_until_ms.pop(cluster, None)
        if urgent or row.urgency is not Urgency.QUIET:
            self._append_waiting([cluster])
        elif row.observed_at_ms >= self._quiet_until_ms.get(cluster, 0):
            self._time_has_come.add(cluster)
        if self._waiting_bytes + self._appended_bytes >= _MOST_BYTES:
            self._append_waiting([*self._waiting])
            urgent, waits_s = True, 0.0
        if waits_s > 0:
            self._loop.call_later(waits_s, self._publish_changes)
        elif urgent:
            self._publish_soon()

    def _publish_changes(self) -> None:
        if self._urgent_appended:
            self._publish_soon()

    def _wait_s(self, cluster: str) -> float:
        """Returns how long an urgent row of this cluster waits: not, unless it is the first one after a quiet time."""
        now, before = self._loop.now(), self._urgent_s.get(cluster, -math.inf)
        self._urgent_s[cluster], self._urgent_appended = now, True
        return 0.0 if now - before < _FOLLOWS_S else self._changes_published_s + _APART_S - now

    def _append_waiting(self, clusters: Iterable[str]) -> None:
        for cluster in clusters:
            rows = self._waiting.pop(cluster, [])
            self._time_has_come.discard(cluster)
            if rows:
                if (until_ms := self._quiet_until_ms.get(cluster, 0)) > 0:
                    self._quiet_until_ms[cluster] = max(until_ms, rows[-1].observed_at_ms + _ANSWERED_MS)
                self._all_published = False
                size = sum(len(row.payload) for row in rows)
                self._waiting_bytes -= size
                self._appended_bytes += size
                self._attempt(partial(self._journal.append, rows))

    def _publish_soon(self) -> None:
        if not self._publish_scheduled and not self._unwritable:
            # Scheduled behind the other callbacks of this loop iteration, so that several rows need one sync.
            self._publish_scheduled = True
            self._loop.call_soon(self._publish_appended)

    def publish_regularly(self) -> None:
        """Publishes the rows that need not wait; it is called once a second."""
        self._seconds += 1
        turn = self._seconds % _EVERY_S
        self._append_waiting([one for one in self._waiting if one in self._time_has_come or self._turns[one] == turn])
        if self._loop.now() - self._published_s >= _JUST_NOW_S:
            self._publish_appended()

    def publish(self) -> None:
        """Publishes all rows, if there are any."""
        self._append_waiting([*self._waiting])
        self._publish_appended()

    def _publish_appended(self) -> None:
        self._publish_scheduled = False
        if not self._all_published and self.failure is None:
            self.publications += 1
            self._before_publish()
            self._attempt(self._publish_or_keep)

    def _publish_or_keep(self) -> None:
        try:
            self._journal.publish()
        except UnwritableJournalError as problem:
            if self._appended_bytes > _MOST_UNWRITTEN:
                raise
            if not self._unwritable:
                _LOG.warning("%s; what is observed waits in memory", problem)
            self._unwritable = True
            self._on_full_disk()
        else:
            self._all_published, self._appended_bytes, self._unwritable = True, 0, False
            self._published_s = self._loop.now()
            if self._urgent_appended:
                self._changes_published_s, self._urgent_appended = self._published_s, False

    def _attempt(self, step: Callable[[], object]) -> None:
        try:
            step()
        except JournalError as problem:
            self.failure = problem
            self._on_failure()
