"""WrittenClusters: which clusters' rows this relay writes, and when it takes one over; WaitingRows: what waits for it.

Relays that gather the same cluster need no connection to each other. A relay takes a cluster over, with a new epoch,

- at once, if the topic has no row of it, or if its own former process wrote the newest one;
- if a row of its journal has been missing in the topic for LEASE_S, and the topic was read to the end that the brokers
  report then. So a relay that writes but does not reach the controllers is replaced too, and a relay that does not
  reach the brokers replaces none.

It sends the first row of an epoch alone. Once it reads this row from the topic, the cluster is its own: of two relays
that begin at the same time, one finds that its row does not count. It stops when it reads a row of a later epoch.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException

from connectors.observations.observation import Observation, ObservationKind
from connectors.relay.relay_message import Baseline, RelayEpoch, RelayMessage
from connectors.relay.topic_tail import RowExtent, TopicPosition, TopicTail, extent, next_epoch
from connectors.store.journal_reader import JournalReader
from connectors.wall_clock import wall_ms
from rules.firing import AHEAD_MS

LEASE_S: Final = 10.0
"""How long the topic may lack what this relay has."""
_LOG = logging.getLogger(__name__)
_DECIDES_EVERY_S: Final = 0.5
_ANSWERS: Final = {ObservationKind.RECORDS, ObservationKind.SNAPSHOT, ObservationKind.QUORUM}
"""What a relay gathers only from a leader that it reaches."""


@dataclass(slots=True, kw_only=True)
class WaitingRow:
    """One row."""

    cluster: str
    sequence: int
    """In the journal."""
    extent: RowExtent
    payload_bytes: int
    since: float
    """Monotonic seconds at which it was read from the journal."""
    sent: int | None
    """Its sequence in the topic; None if another relay writes the cluster."""
    done: bool = False


class WaitingRows:
    """Rows from some place of the journal on. Those of a cluster leave in their order."""

    def __init__(self, clusters: Collection[str]) -> None:
        """Begins without rows; `clusters`: those that wait for the topic, rows of others do not."""
        self._order: deque[WaitingRow] = deque()
        self._of_cluster: dict[str, deque[WaitingRow]] = {name: deque() for name in clusters}
        self._since: dict[str, float] = {}
        self._before: dict[str, float] = {}
        self.in_flight = 0
        """How many of them this relay sends."""

    @property
    def oldest_since(self) -> float | None:
        """Since when the oldest row waits."""
        return self._order[0].since if self._order else None

    def of(self, cluster: str) -> Sequence[WaitingRow]:
        """Returns the rows of a cluster, oldest first."""
        return self._of_cluster[cluster]

    def missing_s(self, cluster: str) -> float:
        """Returns for how long the topic has lacked the oldest row of a cluster; 0 if no row waits."""
        return time.monotonic() - self._since[cluster] if self._of_cluster[cluster] else 0.0

    def missing_before(self, missing_s: Mapping[str, float]) -> None:
        """The rows of these clusters have been missing for so long before they are added."""
        now = time.monotonic()
        self._before = {name: now - each for name, each in missing_s.items() if each}

    def restart_wait(self, clusters: Collection[str]) -> None:
        """Lets the time of `missing_s` begin again."""
        now = time.monotonic()
        self._since |= dict.fromkeys(clusters, now)

    def add(self, row: Observation, *, sent: int | None) -> None:
        """Adds the next row of the journal."""
        now = time.monotonic()
        one = WaitingRow(
            cluster=row.cluster,
            sequence=row.sequence,
            extent=extent(row),
            payload_bytes=len(row.payload),
            since=now,
            sent=sent,
            done=row.cluster not in self._of_cluster,
        )
        self._order.append(one)
        if one.done:
            return
        if not self._of_cluster[row.cluster]:
            self._since[row.cluster] = self._before.pop(row.cluster, now)
        self._of_cluster[row.cluster].append(one)
        self.in_flight += sent is not None

    def no_longer_sent(self, cluster: str) -> None:
        """Another relay writes the cluster now."""
        for one in self._of_cluster[cluster]:
            if one.sent is not None:
                one.sent = None
                self.in_flight -= 1

    def remove(self, cluster: str, is_done: Callable[[WaitingRow], bool]) -> list[WaitingRow]:
        """Removes the oldest rows of a cluster as far as they are done; returns those that this relay has sent."""
        sent: list[WaitingRow] = []
        waiting = self._of_cluster[cluster]
        while waiting and is_done(waiting[0]):
            one = waiting.popleft()
            one.done = True
            self._since[cluster] = time.monotonic()
            if one.sent is not None:
                self.in_flight -= 1
                sent.append(one)
        return sent

    def done_to(self) -> int | None:
        """Returns the sequence below which all rows are done now; None if it has not advanced."""
        done = None
        while self._order and self._order[0].done:
            done = self._order.popleft()
        return None if done is None else done.sequence + 1


@dataclass(slots=True, kw_only=True)
class WrittenCluster:
    """A cluster whose rows this relay writes."""

    epoch: RelayEpoch
    baseline: Baseline
    first: int
    """The sequence in the journal of the first row of the epoch."""
    partition: int | None
    """None until the producer has chosen one."""
    after: TopicPosition | None
    """What the topic had before; None if the log is written from its start."""
    sent_to: int = 0
    """The sequence in the journal after the newest row that was sent; 0 if none was."""
    confirmed: bool = False
    """Whether a row of the epoch was read from the topic."""

    def sequence(self, journal_sequence: int) -> int:
        """Returns the sequence in the topic of a row of the epoch."""
        return self.epoch.sequence + journal_sequence - self.first

    def sends(self, sequence: int, row: RowExtent) -> bool:
        """Returns whether a row of the journal belongs into the topic.

        The relay before may have written a newer poll. Its rows of the log are sent again: the replay skips them.
        """
        before = self.after
        known = before is not None and row.log_end is None and row.observed_at_ms <= before.progress.observed_at_ms
        return sequence >= self.first and not known


def is_in_topic(one: WaitingRow, *, position: TopicPosition, written: WrittenCluster | None) -> bool:
    """Returns whether the topic has a row; one that this relay sent must be there in the epoch that it writes now."""
    if one.sent is None or written is None:
        return position.has(one.extent)
    return position.epoch == written.epoch and position.sequence >= one.sent


class WrittenClusters:
    """Follows the topic's epochs and begins those of this relay."""

    def __init__(self, clusters: Collection[str], relay: str, tail: TopicTail, journal: JournalReader) -> None:
        """`clusters`: those that this relay gathers; `relay`: its name, which a restart keeps."""
        self._clusters = clusters
        self._relay = relay
        self._tail = tail
        self._journal = journal
        self.written: dict[str, WrittenCluster] = {}
        """How this relay writes a cluster; one that it does not write is missing."""
        self._not_before: dict[str, float] = {}
        """The last epoch was lost: monotonic seconds until when no further one begins."""
        self._to_read: dict[str, tuple[int, int]] = {}
        """Partition and offset up to which the topic must be read before a cluster is taken over."""
        self._decides_at = 0.0
        self.needing_baseline: set[str] = set()
        """Clusters to take over of which neither the topic nor the journal has the whole log."""
        self.takeovers = 0
        """How often an epoch followed that of another relay."""

    @property
    def gaps(self) -> Mapping[str, str]:
        """Which offsets the topic lacks of the log of a cluster that this relay writes."""
        found = {name: self._tail.positions.get(name) for name, one in self.written.items() if one.confirmed}
        return {name: one.gap for name, one in found.items() if one is not None and one.gap is not None}

    def note(self, message: RelayMessage, waiting: WaitingRows, *, counts: bool) -> bool:
        """Notes what was read from the topic; returns whether it was the first one of an epoch of this relay."""
        cluster, epoch = message.observation.cluster, message.epoch
        position, mine = self._tail.positions.get(cluster), self.written.get(cluster)
        if counts and message.observation.kind in _ANSWERS and position is not None and not position.usable:
            # The other relay reads the log again, which takes a while.
            waiting.restart_wait([cluster])
        if mine is None:
            return False
        if epoch != mine.epoch:
            if counts and mine.confirmed:
                self._stand_down(cluster, epoch, waiting)
            return False
        if counts and position is not None:
            first, mine.confirmed, mine.partition = not mine.confirmed, True, position.partition
            return first
        if position is None or position.epoch != mine.epoch:
            # It was refused, or another relay was first.
            self._stand_down(cluster, mine.epoch if position is None else position.epoch, waiting)
        return False

    def take_over(self, waiting: WaitingRows, next_sequence: int) -> bool:
        """Begins the epochs that are due; returns whether one began. `next_sequence`: of the row after `waiting`."""
        if not self._tail.caught_up or time.monotonic() < self._decides_at:
            return False
        self._decides_at = time.monotonic() + _DECIDES_EVERY_S
        ends: dict[int, int] = {}
        due = [name for name in self._clusters if name not in self.written and self._is_due(name, waiting, ends)]
        began = [name for name in due if self._continue(name, waiting, next_sequence)]
        return bool(began)

    def begin_baselines(self, first: int) -> None:
        """Begins a new epoch with a new baseline of each cluster that this relay writes, or that needs one.

        `first`: the sequence from which on the journal has every log from its start.
        """
        now_ms = wall_ms()
        for name in {*self.written, *self.needing_baseline}:
            before = self.written.get(name)
            sent = 0 if before is None or not before.sent_to else before.sequence(before.sent_to)
            epoch = next_epoch(self._tail.positions.get(name), sent=sent, relay=self._relay, now_ms=now_ms)
            self._begin(name, epoch, Baseline(sequence=epoch.sequence, at_ms=now_ms), first, after=None)
        self.needing_baseline.clear()

    def send_again(self) -> None:
        """What was sent may be lost: rows that the topic does not have are sent again."""
        for one in self.written.values():
            one.sent_to = 0

    def _is_due(self, cluster: str, waiting: WaitingRows, ends: dict[int, int]) -> bool:
        """Whether this relay is to take a cluster over now; `ends`: of partitions whose leader has answered."""
        position = self._tail.positions.get(cluster)
        if time.monotonic() < self._not_before.get(cluster, 0.0):
            return False
        if position is None or position.epoch.relay == self._relay:
            return True
        if waiting.missing_s(cluster) < LEASE_S:
            self._to_read.pop(cluster, None)
            return False
        if cluster not in self._to_read:
            partition = position.partition
            try:
                ends[partition] = ends[partition] if partition in ends else self._tail.end(partition)
            except KafkaException:
                # The brokers do not answer this relay: what the other one writes is not known.
                waiting.restart_wait(self._clusters)
                return False
            self._to_read[cluster] = (partition, ends[partition])
        return self._tail.has_read(*self._to_read[cluster])

    def _continue(self, cluster: str, waiting: WaitingRows, next_sequence: int) -> bool:
        """Begins an epoch after what the topic has; returns False if it needs a new baseline first."""
        position, rows = self._tail.positions.get(cluster), waiting.of(cluster)
        self._to_read.pop(cluster, None)
        now_ms = wall_ms()
        log = next((one.extent for one in rows if one.extent.log_end is not None), None)
        if position is not None and position.usable and (log is None or position.continues(log)):
            epoch = next_epoch(position, sent=0, relay=self._relay, now_ms=now_ms)
            first = rows[0].sequence if rows else next_sequence
            self._begin(cluster, epoch, position.baseline, first, after=position)
        elif self._journal.complete and self._journal.committed_end() <= self._journal.beginning():
            first = self._journal.beginning()
            row = next(self._journal.read(first, self._journal.published_end()), None)
            if row is None:
                return False
            # The number of a baseline is about its time: the brokers may have been unreachable since its first row.
            begun_ms = min(now_ms, row.observed_at_ms + AHEAD_MS)
            epoch = next_epoch(position, sent=0, relay=self._relay, now_ms=begun_ms)
            self._begin(cluster, epoch, Baseline(sequence=epoch.sequence, at_ms=row.observed_at_ms), first, after=None)
        else:
            self.needing_baseline.add(cluster)
            return False
        if position is not None and position.epoch.relay != self._relay:
            self.takeovers += 1
            _LOG.warning("cluster %s: this relay writes its rows, after the relay %s", cluster, position.epoch.relay)
        return True

    def _begin(
        self, cluster: str, epoch: RelayEpoch, baseline: Baseline, first: int, *, after: TopicPosition | None
    ) -> None:
        position = self._tail.positions.get(cluster)
        partition = None if position is None else position.partition
        self.written[cluster] = WrittenCluster(
            epoch=epoch, baseline=baseline, first=first, partition=partition, after=after
        )

    def _stand_down(self, cluster: str, to: RelayEpoch, waiting: WaitingRows) -> None:
        del self.written[cluster]
        self._not_before[cluster] = time.monotonic() + LEASE_S
        waiting.no_longer_sent(cluster)
        if to.relay != self._relay:
            _LOG.warning("cluster %s: the relay %s writes its rows; this one stands by", cluster, to.relay)
