"""RelayedCluster: one cluster of a relay. When this relay writes its rows, and which and how.

Relays that gather the same cluster need no connection to each other. One of them takes the cluster over

- at once, if the topic has no row of it, or if its own former process wrote the newest one;
- if the topic has got no row of it for LEASE_S, or none that a leader has answered while this relay gathers some. So a
  relay that writes but does not reach the leader is replaced too.

A relay that stands by keeps its rows of KEEP_S. Before it takes over, it reads the topic to the end that the brokers
report then: a relay that does not reach them replaces none. It opens a writer, which fences the others and ends what
they have begun (`cluster_writer`), reads the topic to its end again, with what was not committed before, and continues
after what it has read. A relay that was fenced stands by.
"""

import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from connectors.observations.observation import Observation, ObservationKind
from connectors.relay.cluster_writer import ClusterWriter
from connectors.relay.relay_message import Baseline, RelayMessage, first_sequence
from connectors.relay.topic_tail import RowExtent, TopicPosition, TopicTail, extent
from connectors.store.journal_reader import JournalReader

LEASE_S: Final = 10.0
"""How long the topic may get no row."""
KEEP_S: Final = 2 * LEASE_S
"""How late the relay that writes may be: an older row of one that stands by is not sent."""
_ANSWERS: Final = {ObservationKind.RECORDS, ObservationKind.SNAPSHOT, ObservationKind.QUORUM}
"""What a relay gathers only from a leader that it reaches."""
_ROWS_AT_ONCE: Final = 500
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
"""Of payload in one transaction; one row may have more."""
_LONGEST_PAUSE_S: Final = 10.0


class RelayRole(Enum):
    """What a relay does with a cluster."""

    STANDS_BY = "stands by"
    """It waits until the topic gets no more rows."""
    OPENS = "opens"
    """Its writer is being opened."""
    CATCHES_UP = "catches up"
    """Its writer is open, and it reads what the topic got before."""
    WRITES = "writes"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """A row of the journal that the topic may not have."""

    sequence: int
    """In the journal."""
    extent: RowExtent
    added_at: float
    """Monotonic seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One transaction."""

    messages: list[RelayMessage]
    end: int
    """The sequence in the journal below which the topic has all rows once it is committed."""


class RelayedCluster:
    """One cluster's share of a relay. Its methods are called by one thread."""

    def __init__(self, name: str, cluster_id: str, relay: str, tail: TopicTail, *, whole: bool) -> None:
        """Begins without rows.

        `relay`: the name of this relay, which a restart keeps; `whole`: whether those of the journal that are added
        begin with the start of the cluster's log.
        """
        self.name = name
        self._cluster_id = cluster_id
        self._relay = relay
        self._tail = tail
        self.role = RelayRole.STANDS_BY
        self.writer: ClusterWriter | None = None
        self.task: Future[Any] | None = None
        """What the writer does now."""
        self.task_since = 0.0
        """Monotonic seconds since which it does so."""
        self.ends: Mapping[int, int] | None = None
        """How far the topic must be read before the next step: offsets by partition."""
        self.waiting: deque[WaitingRow] = deque()
        self._row_at = self._answer_at = time.monotonic()
        """Monotonic seconds of the newest row of the topic, and of the newest that a leader has answered."""
        self._own_answer_at = 0.0
        """The same of a row of this relay."""
        self._known_to = 0
        """The sequence in the journal after the newest row that has been added to `waiting`."""
        self._whole = whole
        """Whether `waiting` begins with the start of the log."""
        self._continues = True
        """Whether it may take over at once: no other relay was seen to write since it started, or since it wrote."""
        self._pause_s = 0.0
        self._not_before = 0.0
        self.baseline: Baseline | None = None
        """That of the rows that it writes; None before the first one."""
        self.new_baseline: tuple[int, int] | None = None
        """The sequence in the journal of the first row of a baseline that is to begin, and the time; None: continue."""
        self.needs_baseline = False
        """Neither the topic nor the journal has the whole log."""
        self._after: TopicPosition | None = None
        """What the topic had before this relay began to write; None if the log is written from its start."""
        self._next_sequence = 0
        """In the topic."""
        self._queue: deque[Observation] = deque()
        self._queued_to = 0
        """The sequence in the journal after the newest row that was queued, or that the topic needs not."""
        self._sent: Sent | None = None

    @property
    def position(self) -> TopicPosition | None:
        """What the topic has; None if no row was found."""
        return self._tail.positions.get(self.name)

    @property
    def writes(self) -> bool:
        """Whether this relay writes the rows."""
        return self.role is RelayRole.WRITES

    @property
    def is_own(self) -> bool:
        """Whether this relay writes the rows, or did so before an error."""
        position = self.position
        return self.writes or (self._continues and position is not None and position.relay == self._relay)

    @property
    def gap(self) -> str | None:
        """Which offsets of the log the topic lacks, if this relay writes; None if none are."""
        position = self.position
        known = self.writes and position is not None and position.baseline == self.baseline
        return position.gap if known and position is not None else None

    @property
    def unsent(self) -> bool:
        """Whether rows that this relay writes are on their way."""
        return self.writes and bool(self.waiting or self._queue or self.task)

    @property
    def queued_bytes(self) -> int:
        """Payload of the rows that are queued, about."""
        return sum(len(row.payload) for row in self._queue)

    @property
    def newest_queued(self) -> int:
        """The sequence in the journal of the newest row that can be sent now; -1 if none can be."""
        return self._queue[-1].sequence if self._queue and self.task is None else -1

    def restart_wait(self) -> None:
        """Waits from now on for rows of another relay."""
        self._row_at = self._answer_at = time.monotonic()

    def notice(self, row: Observation) -> None:
        """Notices a row of the topic."""
        self._row_at = time.monotonic()
        if row.kind in _ANSWERS:
            self._answer_at = self._row_at
        while not self.writes and self.waiting and self.waiting[0].added_at < self._row_at - KEEP_S:
            self._remove_to(self.waiting[0].sequence + 1)

    def add(self, row: Observation) -> None:
        """Adds a row of the journal; they come in order, and some of them again after `begin`."""
        if row.sequence >= self._known_to:
            now = time.monotonic()
            self.waiting.append(WaitingRow(sequence=row.sequence, extent=extent(row), added_at=now))
            self._known_to = row.sequence + 1
            if row.kind in _ANSWERS:
                self._own_answer_at = now
        if self.writes and row.sequence >= self._queued_to:
            self._queued_to = row.sequence + 1
            if self._is_sent(extent(row)):
                self._queue.append(row)

    def is_due(self) -> bool:
        """Whether this relay is to take over, if the topic has been read to its end."""
        position = self.position
        if position is not None and position.relay != self._relay:
            self._continues = False
        now = time.monotonic()
        if not self.waiting or now < self._not_before:
            return False
        reaches_more = self._own_answer_at > self._answer_at and now - self._answer_at >= LEASE_S
        return self._continues or reaches_more or now - self._row_at >= LEASE_S

    def read_to(self, ends: Mapping[int, int]) -> bool:
        """Sets `ends` to those of the partitions that matter; returns whether they are all there."""
        partitions = self._tail.partitions if self.position is None else [self.position.partition]
        found = {number: ends[number] for number in partitions if number in ends}
        self.ends = found if len(found) == len(partitions) else None
        return self.ends is not None

    def has_read(self) -> bool:
        """Returns whether `ends` are known, and the topic was read to them."""
        return self.ends is not None and all(self._tail.has_read(*each) for each in self.ends.items())

    def begin(self, journal: JournalReader, now_ms: int) -> int | None:
        """Begins to write after what the topic has; `now_ms`: the time.

        Returns:
            The sequence in the journal of the first row; None if the whole log must be gathered again before, or if
            there is no row yet.
        """
        position = self.position
        while position is not None and self.waiting and position.has(self.waiting[0].extent):
            self._remove_to(self.waiting[0].sequence + 1)
        log = next((row.extent for row in self.waiting if row.extent.log_end is not None), None)
        least = first_sequence(now_ms) if position is None else position.sequence + 1
        self._next_sequence = max(self._next_sequence, least)
        after: TopicPosition | None = None
        if self.new_baseline is not None:
            first, at_ms = self.new_baseline
            self.baseline = Baseline(sequence=self._next_sequence, at_ms=at_ms)
        elif not self.waiting:
            return None
        elif position is not None and position.usable and (log is None or position.continues(log)):
            first, self.baseline, after = self.waiting[0].sequence, position.baseline, position
        elif self._whole and journal.complete:
            first, at_ms = self.waiting[0].sequence, self.waiting[0].extent.observed_at_ms
            self.baseline = Baseline(sequence=self._next_sequence, at_ms=at_ms)
        else:
            self.needs_baseline = True
            return None
        if self.writer is not None and position is not None:
            self.writer.partition = position.partition
        self.role, self.ends, self._after = RelayRole.WRITES, None, after
        self._continues, self.needs_baseline, self.new_baseline = True, False, None
        self._pause_s = 0.0
        self._queue.clear()
        self.waiting.clear()
        self._known_to = self._queued_to = first
        return first

    def take(self) -> list[RelayMessage]:
        """Returns the rows of the next transaction; none if there is nothing to send now."""
        if self.task is not None or not self.writes:
            return []
        if not self._queue:
            # What waits is in the topic already.
            self._remove_to(self._queued_to)
            return []
        assert self.baseline is not None, "it writes"
        position = self.position
        if position is not None:
            # A program other than a relay may have written a row.
            self._next_sequence = max(self._next_sequence, position.sequence + 1)
        messages: list[RelayMessage] = []
        size = end = 0
        while self._queue and len(messages) < _ROWS_AT_ONCE and size < _BYTES_AT_ONCE:
            row = self._queue.popleft()
            size, end = size + len(row.payload), row.sequence + 1
            messages.append(
                RelayMessage(
                    observation=replace(row, sequence=self._next_sequence),
                    cluster_id=self._cluster_id,
                    baseline=self.baseline,
                    relay=self._relay,
                )
            )
            self._next_sequence += 1
        self._sent = Sent(messages=messages, end=end)
        return messages

    def committed(self) -> list[RelayMessage]:
        """Notes that the transaction is committed; returns its messages."""
        assert self._sent is not None, "it was sent"
        sent, self._sent = self._sent, None
        self._remove_to(sent.end)
        return sent.messages

    def stand_by(self, *, fenced: bool) -> None:
        """Stops to write: another relay has taken over, or the writer failed and a new one follows after a pause."""
        self.role, self.writer, self.ends = RelayRole.STANDS_BY, None, None
        self._queue.clear()
        self._sent = None
        self.restart_wait()
        if fenced:
            self._continues = False
        else:
            self._pause_s = min(_LONGEST_PAUSE_S, max(1.0, 2 * self._pause_s))
            self._not_before = time.monotonic() + self._pause_s

    def give_up_to(self, sequence: int) -> None:
        """Removes the rows before this one of the journal."""
        self._remove_to(sequence)
        self._known_to = max(self._known_to, sequence)

    def _remove_to(self, sequence: int) -> None:
        while self.waiting and self.waiting[0].sequence < sequence:
            self.waiting.popleft()
            self._whole = False

    def _is_sent(self, row: RowExtent) -> bool:
        """Returns whether a row belongs into the topic.

        The relay before may have written a newer poll. Its rows of the log are sent again: the replay skips them.
        """
        before = self._after
        return before is None or row.log_end is not None or row.observed_at_ms > before.progress.observed_at_ms
