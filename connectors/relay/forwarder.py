"""The forwarder: sends the published rows of a relay's journal to the topic while this relay writes their cluster.

Every relay reads the topic (`topic_tail`) and decides for each cluster whether it writes (`relayed_cluster`). A row
stays in the journal until the topic has it, or what it reports, by whichever relay; the journal's `committed` position
says how far that is. After a crash, and after each error of a writer, what the topic has decides where to continue.

One thread calls the methods; threads of a pool wait for the brokers, one for each cluster at most.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from typing import Final

from confluent_kafka import KafkaException

from connectors.errors import KraftwatchError, UsageError
from connectors.process.wall_clock import wall_ms
from connectors.relay.cluster_writer import ClusterWriter, FencedError
from connectors.relay.relay_message import TopicError
from connectors.relay.relayed_cluster import RelayedCluster, RelayRole
from connectors.relay.topic_client import open_producer, reason
from connectors.relay.topic_tail import TopicTail
from connectors.settings.sections import TopicSection
from connectors.store.journal_reader import JournalReader

_LOG = logging.getLogger(__name__)
_ROWS_AT_ONCE: Final = 500
_QUEUED_BYTES: Final = 32 * 1024 * 1024
"""Of payload in memory: until it is sent, no more is read from the journal."""
_TRANSACTIONS_AT_ONCE: Final = 4
"""More delay each other: a row that is urgent would wait for those of all clusters."""
_SLOW_S: Final = 1.0
"""A transaction that takes longer delays no other one."""
_BUSY_S: Final = 0.005
_ASK_AGAIN_S: Final = 0.5
_CONNECT_S: Final = 10.0
_LONGEST_PAUSE_S: Final = 10.0
_TOPIC: Final = ""
"""What fails, if it is not the writer of one cluster."""


@dataclass(slots=True)
class ForwardCounts:
    """What the forwarder has done since its start."""

    rows: int = 0
    """Rows that it has written."""
    payload_bytes: int = 0
    """The same in bytes of payload."""
    errors: int = 0
    """How often a connection failed and was opened again."""
    takeovers: int = 0
    """How often it took over a cluster that another relay wrote."""
    acknowledged_at: float | None = None
    """Monotonic seconds of the newest commit."""
    failing: str | None = None
    """Why rows are not accepted now, in one sentence without a secret; None while they are."""


class Forwarder:
    """Forwards one journal. Its methods are called by one thread."""

    def __init__(self, journal: JournalReader, topic: TopicSection, clusters: Mapping[str, str], relay: str) -> None:
        """Connects at the first `forward`.

        `clusters`: the ids of the clusters whose rows are sent, by name; `relay`: its name, which a restart keeps.
        """
        self._journal = journal
        self._topic = topic
        self._ids = clusters
        self._relay = relay
        self._pool = ThreadPoolExecutor(max(1, len(clusters)), thread_name_prefix="relay")
        self._failing: dict[str, str] = {}
        """Why, by cluster."""
        self._pause_s = 0.0
        self._retry_at = 0.0
        self._ask_at = 0.0
        self.newest_ms = 0
        """The time of the newest row that was sent."""
        self.counts = ForwardCounts()
        self._begin()

    def _begin(self) -> None:
        """Knows nothing of the topic yet."""
        self._tail = TopicTail(self._topic, self._ids)
        self._connected = False
        self._next = self._first()
        """The sequence of the next row that is read from the journal."""
        whole = self._next == self._journal.beginning()
        self._clusters = {
            name: RelayedCluster(name, each, self._relay, self._tail, whole=whole) for name, each in self._ids.items()
        }

    def _first(self) -> int:
        return max(self._journal.committed_end(), self._journal.first_sequence())

    @property
    def waiting_rows(self) -> int:
        """The number of published rows that the topic may not have."""
        return max(0, self._journal.published_end() - self._first())

    @property
    def written(self) -> Collection[str]:
        """The clusters whose rows this relay writes."""
        return {name for name, cluster in self._clusters.items() if cluster.writes}

    @property
    def stands_by(self) -> bool:
        """Whether other relays write clusters that this one would take over."""
        return self._tail.caught_up and any(cluster.role is RelayRole.STANDS_BY for cluster in self._clusters.values())

    @property
    def needing_baseline(self) -> Collection[str]:
        """Clusters to take over of which neither the topic nor the journal has the whole log."""
        return {name for name, cluster in self._clusters.items() if cluster.needs_baseline}

    @property
    def gaps(self) -> Mapping[str, str]:
        """Which offsets the topic lacks of the log of a cluster that this relay writes."""
        return {name: cluster.gap for name, cluster in self._clusters.items() if cluster.gap is not None}

    @property
    def oldest_baseline_ms(self) -> int | None:
        """The time of the oldest baseline of the clusters that this relay writes; None if it writes none."""
        baselines = [
            cluster.baseline for cluster in self._clusters.values() if cluster.writes and cluster.baseline is not None
        ]
        return min((baseline.at_ms for baseline in baselines), default=None)

    def forward(self, timeout_s: float) -> None:
        """Sends what is published, and commits what the topic has; waits at most `timeout_s` for a new row.

        Raises JournalError if the journal cannot be read or its position not be written.
        """
        if not self._connected and not self._connect(timeout_s):
            return
        try:
            self._collect_results()
            for row in self._tail.read():
                self._clusters[row.cluster].notice(row)
            self._take_over()
        except KafkaException as problem:
            self._reconnect_later(reason(problem.args[0], self._topic))
            return
        except (TopicError, UsageError) as problem:
            self._reconnect_later(str(problem))
            return
        self._read_journal(timeout_s)
        self._send()
        self._journal.commit(self._done_to())
        if self._tail.created_again:
            _LOG.warning("the topic %s does not have what was read from it: it was created again", self._topic.topic)
            self._tail.close()
            self._begin()

    def drain(self, timeout_s: float) -> bool:
        """Sends what is published, for at most this time; returns whether the topic has all rows of this relay."""
        until = time.monotonic() + timeout_s
        while self._unsent():
            if time.monotonic() >= until:
                return False
            self.forward(0.1)
        return True

    def begin_baselines(self, sequence: int) -> int:
        """Begins with new baselines at this row of the journal, from which on it has every log from its start.

        Returns:
            How many rows before it are given up.
        """
        skipped = max(0, sequence - self._first())
        now_ms = wall_ms()
        for cluster in self._clusters.values():
            if cluster.is_own or cluster.needs_baseline:
                cluster.new_baseline = (sequence, now_ms)
            cluster.give_up_to(sequence)
        self._journal.commit(sequence)
        self._next = max(self._next, sequence)
        for cluster in self._clusters.values():
            if cluster.writes and cluster.new_baseline is not None:
                self._begin_to_write(cluster)
        return skipped

    def close(self, timeout_s: float) -> None:
        """Sends what is published, for at most this time, and closes the connections."""
        if self._connected:
            self.drain(timeout_s)
        self._pool.shutdown(cancel_futures=True)
        for cluster in self._clusters.values():
            cluster.writer = None
        self._tail.close()

    def _unsent(self) -> bool:
        written = [cluster for cluster in self._clusters.values() if cluster.writes]
        return any(cluster.unsent for cluster in written) or (
            bool(written) and self._journal.published_end() > self._next
        )

    def _done_to(self) -> int:
        """Returns the sequence in the journal below which the topic has everything."""
        return min(
            [self._next, *(cluster.waiting[0].sequence for cluster in self._clusters.values() if cluster.waiting)]
        )

    def _connect(self, timeout_s: float) -> bool:
        """Creates the topic if needed, and connects the reader; returns whether that is done."""
        if time.monotonic() < self._retry_at:
            time.sleep(min(timeout_s, max(0.0, self._retry_at - time.monotonic())))
            return False
        reported: list[str] = []
        try:
            open_producer(
                self._topic, on_error=lambda error: reported.append(reason(error, self._topic)), within_s=_CONNECT_S
            )
            self._tail.open(_CONNECT_S)
        except (TopicError, UsageError) as problem:
            # What librdkafka reported meanwhile is more exact than the timeout.
            self._reconnect_later(reported[-1] if reported else str(problem))
            return False
        self._connected, self._pause_s = True, 0.0
        self._works(_TOPIC)
        return True

    def _reconnect_later(self, why: str) -> None:
        """Connects the reader again after a pause."""
        self._tail.close()
        self._connected = False
        self._pause_s = min(_LONGEST_PAUSE_S, max(1.0, 2 * self._pause_s))
        self._retry_at = time.monotonic() + self._pause_s
        self._report(_TOPIC, why)

    def _collect_results(self) -> None:
        """Notes what the writers have done."""
        for cluster in self._clusters.values():
            if cluster.task is None or not cluster.task.done():
                continue
            task, cluster.task = cluster.task, None
            try:
                result = task.result()
            except FencedError as problem:
                _LOG.warning(
                    "cluster %s: %s; this one stands by", cluster.name, problem, extra={"cluster": cluster.name}
                )
                cluster.stand_by(fenced=True)
            except KraftwatchError as problem:
                cluster.stand_by(fenced=False)
                self._report(cluster.name, str(problem))
            else:
                if cluster.role is RelayRole.OPENS:
                    cluster.role, cluster.writer = RelayRole.CATCHES_UP, result
                else:
                    self._count(cluster)

    def _count(self, one: RelayedCluster) -> None:
        """Notes a committed transaction."""
        messages = one.committed()
        self.counts.rows += len(messages)
        self.counts.payload_bytes += sum(len(message.observation.payload) for message in messages)
        self.counts.acknowledged_at = time.monotonic()
        self._works(one.name)

    def _works(self, what: str) -> None:
        if self._failing.pop(what, None) is not None:
            self.counts.failing = next(iter(self._failing.values()), None)
            if self.counts.failing is None:
                _LOG.warning("the topic %s is reached again", self._topic.topic)

    def _report(self, what: str, why: str) -> None:
        self.counts.errors += 1
        if why not in self._failing.values():
            _LOG.warning(
                "no row can be written to the topic %s: %s; the relay keeps them and retries", self._topic.topic, why
            )
        self._failing[what] = self.counts.failing = why

    def _take_over(self) -> None:
        """Takes the next step of each cluster that this relay is to take over."""
        if not self._tail.caught_up or time.monotonic() < self._ask_at:
            return
        ends = {RelayRole.STANDS_BY: cache(self._tail.ends), RelayRole.CATCHES_UP: cache(self._tail.uncommitted_ends)}
        for cluster in self._clusters.values():
            if cluster.role is RelayRole.STANDS_BY and not cluster.is_due():
                cluster.ends = None
            elif cluster.role in ends and self._has_read(cluster, ends[cluster.role]):
                if cluster.role is RelayRole.CATCHES_UP:
                    self._begin_to_write(cluster)
                else:
                    cluster.role, cluster.ends = RelayRole.OPENS, None
                    cluster.task = self._pool.submit(ClusterWriter(self._topic, cluster.name).open)

    def _has_read(self, one: RelayedCluster, ends: Callable[[], Mapping[int, int]]) -> bool:
        if one.ends is None and not one.read_to(ends()):
            # The brokers do not answer this relay: what another one writes is not known.
            self._ask_at = time.monotonic() + _ASK_AGAIN_S
            for cluster in self._clusters.values():
                cluster.restart_wait()
        return one.has_read()

    def _begin_to_write(self, one: RelayedCluster) -> None:
        before = one.position
        if one.needs_baseline and one.new_baseline is None:
            return
        first = one.begin(self._journal, wall_ms())
        if first is None:
            return
        self._next = min(self._next, first)
        if before is not None and before.relay != self._relay:
            self.counts.takeovers += 1
            _LOG.warning(
                "cluster %s: this relay writes its rows, after the relay %s",
                one.name,
                before.relay,
                extra={"cluster": one.name},
            )

    def _read_journal(self, timeout_s: float) -> None:
        running = [cluster.task for cluster in self._clusters.values() if cluster.task is not None]
        published = self._journal.published_end()
        full = sum(cluster.queued_bytes for cluster in self._clusters.values()) > _QUEUED_BYTES
        if running and (full or published <= self._next):
            wait(running, timeout=_BUSY_S, return_when=FIRST_COMPLETED)
        elif published <= self._next and not any(cluster.newest_queued >= 0 for cluster in self._clusters.values()):
            reading = any(cluster.ends is not None for cluster in self._clusters.values())
            published = self._journal.wait_beyond(self._next, _BUSY_S if reading else timeout_s)
        if full:
            return
        for row in self._journal.read(self._next, min(published, self._next + _ROWS_AT_ONCE)):
            if (one := self._clusters.get(row.cluster)) is not None:
                one.add(row)
            self._next = row.sequence + 1

    def _send(self) -> None:
        """Begins transactions, with the newest rows first: what is urgent is the last of what is published together."""
        now = time.monotonic()
        running = sum(
            cluster.task is not None and now - cluster.task_since < _SLOW_S for cluster in self._clusters.values()
        )
        late = {name for name, cluster in self._clusters.items() if now - cluster.task_since > _SLOW_S}
        order = sorted(self._clusters.values(), key=lambda one: (one.name in late, one.newest_queued), reverse=True)
        for one in order:
            if running >= _TRANSACTIONS_AT_ONCE:
                break
            if messages := one.take():
                assert one.writer is not None, "it writes"
                one.task, one.task_since = self._pool.submit(one.writer.send, messages), now
                self.newest_ms = max(self.newest_ms, messages[-1].observation.observed_at_ms)
                running += 1
