"""The forwarder: sends the published rows of a relay's journal to the topic while this relay writes their cluster.

Every relay reads the topic (`topic_tail`). A row stays in the journal until the topic has it, or what it reports, by
whichever relay; the journal's `committed` position says how far that is. After a crash, and after each error of the
producer, rows may be sent twice, but none is left out.
"""

import logging
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message

from connectors import librdkafka
from connectors.errors import UsageError
from connectors.observations.observation import Observation
from connectors.relay.relay_message import RelayMessage, TopicError
from connectors.relay.topic_client import open_producer, reason
from connectors.relay.topic_tail import TopicTail, extent
from connectors.relay.written_clusters import WaitingRows, WrittenCluster, WrittenClusters, is_in_topic
from connectors.settings import TopicSection
from connectors.store.journal_reader import JournalReader

_LOG = logging.getLogger(__name__)
_ROWS_AT_ONCE: Final = 500
_CONNECT_S: Final = 10.0
_LONGEST_PAUSE_S: Final = 10.0
_UNACKNOWLEDGED_S: Final = 30.0
"""A row that is not acknowledged after this time is reported; it is still sent."""


@dataclass(slots=True)
class ForwardCounts:
    """What the forwarder has done since its start."""

    rows: int = 0
    """Rows of this relay that the topic has."""
    payload_bytes: int = 0
    """The same in bytes of payload."""
    errors: int = 0
    """How often the producer failed and was opened again."""
    acknowledged_at: float | None = None
    """Monotonic seconds at which the newest of them was found in the topic."""
    failing: str | None = None
    """Why rows are not acknowledged now, in one sentence without a secret; None while they are."""


class Forwarder:
    """Forwards one journal. Its methods are called by one thread."""

    def __init__(self, journal: JournalReader, topic: TopicSection, clusters: Mapping[str, str], relay: str) -> None:
        """Connects at the first `forward`.

        `clusters`: the ids of the clusters whose rows are sent, by name; `relay`: its name, which a restart keeps.
        """
        self._journal = journal
        self._topic = topic
        self._clusters = clusters
        self._relay = relay
        self._producer: Any = None
        self._failed: KafkaError | None = None
        self._pause_s = 0.0
        self._retry_at = 0.0
        self.newest_ms = 0
        """The time of the newest row that was sent."""
        self.counts = ForwardCounts()
        self._begin()

    def _begin(self) -> None:
        """Knows nothing of the topic yet."""
        self._tail = TopicTail(self._topic, self._clusters)
        self.clusters = WrittenClusters(self._clusters, self._relay, self._tail, self._journal)
        self._read_again()

    def _read_again(self) -> None:
        """Reads the journal again from the first row that the topic may not have."""
        self._next = self._first()
        self._waiting = WaitingRows(self._clusters)
        self._changed: set[str] = set()
        """Clusters of which rows were read, from the topic or the journal, since the last commit."""

    def _first(self) -> int:
        return max(self._journal.committed_end(), self._journal.first_sequence())

    @property
    def waiting_rows(self) -> int:
        """The number of published rows that the topic may not have."""
        return max(0, self._journal.published_end() - self._first())

    @property
    def stands_by(self) -> Collection[str]:
        """The clusters that other relays write, and that this one would take over."""
        return [name for name in self._clusters if self._tail.caught_up and self.clusters.written.get(name) is None]

    def forward(self, timeout_s: float) -> None:
        """Sends what is published, and commits what the topic has; waits at most `timeout_s` for a new row.

        Raises JournalError if the journal cannot be read or its position not be written.
        """
        if self._producer is None and not self._opened(timeout_s):
            return
        try:
            if self._read_topic() or self.clusters.take_over(self._waiting, self._next):
                self._read_again_from_waiting()
            published = self._journal.wait_beyond(self._next, 0.005 if self._waiting.in_flight else timeout_s)
            for row in self._journal.read(self._next, min(published, self._next + _ROWS_AT_ONCE)):
                self._send(row)
        except BufferError:
            # Its queue is full: the brokers are slower than the journal.
            self._producer.poll(min(0.1, timeout_s))
        except KafkaException as problem:
            self._failed = self._failed or problem.args[0]
        self._producer.poll(0)
        self._commit()
        if self._tail.created_again:
            _LOG.warning("the topic %s does not have what was read from it: it was created again", self._topic.topic)
            self._close()
            self._begin()
        elif self._failed is not None:
            self._reopen_later(reason(self._failed, self._topic))
        elif self.counts.failing is None and self._waits_too_long():
            # What librdkafka reported before is more exact.
            self._report("no broker has acknowledged a row in time")

    def drain(self, timeout_s: float) -> bool:
        """Sends what is published, for at most this time; returns whether the topic has all rows of this relay."""
        until = time.monotonic() + timeout_s
        while self._waiting.in_flight or (self.clusters.written and self._journal.published_end() > self._next):
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
        if skipped:
            # Its queue may have some of them.
            self._close()
        self._journal.commit(sequence)
        self.clusters.begin_baselines(sequence)
        self._read_again()
        return skipped

    def close(self, timeout_s: float) -> None:
        """Sends what is published, for at most this time, and closes the connections."""
        if self._producer is not None:
            self.drain(timeout_s)
        self._close()

    def _waits_too_long(self) -> bool:
        oldest_since = self._waiting.oldest_since
        return bool(self._waiting.in_flight) and time.monotonic() - (oldest_since or 0) > _UNACKNOWLEDGED_S

    def _opened(self, timeout_s: float) -> bool:
        if time.monotonic() < self._retry_at:
            time.sleep(min(timeout_s, max(0.0, self._retry_at - time.monotonic())))
            return False
        self._failed = None
        try:
            self._producer = open_producer(self._topic, on_error=self._on_error, within_s=_CONNECT_S)
            self._tail.open(_CONNECT_S)
        except (TopicError, UsageError) as problem:
            # What librdkafka reported meanwhile is more exact than the timeout.
            self._reopen_later(self._reported_reason() or str(problem))
            return False
        self.clusters.send_again()
        self._read_again()
        return True

    def _read_topic(self) -> bool:
        """Reads what the topic has got; returns whether an epoch of this relay is confirmed by it."""
        confirmed = False
        for message, counts in self._tail.read():
            self._changed.add(message.observation.cluster)
            confirmed = self.clusters.note(message, self._waiting, counts=counts) or confirmed
        return confirmed

    def _read_again_from_waiting(self) -> None:
        """Reads the waiting rows again: some of them are to be sent now."""
        since = {name: self._waiting.missing_s(name) for name in self._clusters}
        self._read_again()
        self._waiting.missing_before(since)

    def _send(self, row: Observation) -> None:
        written, sent = self.clusters.written.get(row.cluster), None
        if written is not None and written.sends(row.sequence, extent(row)):
            sent = written.sequence(row.sequence)
            # The others follow once the first one is confirmed.
            if row.sequence >= written.sent_to and (written.confirmed or not written.sent_to):
                self._produce(row, written, sent)
        self._waiting.add(row, sent=sent)
        self._changed.add(row.cluster)
        self._next = row.sequence + 1

    def _produce(self, row: Observation, written: WrittenCluster, sequence: int) -> None:
        message = RelayMessage(
            observation=replace(row, sequence=sequence),
            cluster_id=self._clusters[row.cluster],
            baseline=written.baseline,
            epoch=written.epoch,
        )
        # The rows of a cluster stay in their partition, also after partitions were added.
        place = {} if written.partition is None else {"partition": written.partition}
        self._producer.produce(
            self._topic.topic,
            message.value(),
            message.key,
            headers=list(message.headers),
            timestamp=row.observed_at_ms,
            on_delivery=partial(self._on_delivery, written),
            **place,
        )
        written.sent_to = row.sequence + 1
        self.newest_ms = max(self.newest_ms, row.observed_at_ms)

    def _on_delivery(self, written: WrittenCluster, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed = self._failed or error
        elif written.partition is None:
            written.partition = message.partition()

    def _commit(self) -> None:
        changed, self._changed = self._changed, set()
        for cluster in changed & self._tail.positions.keys():
            position = self._tail.positions[cluster]
            is_done = partial(is_in_topic, position=position, written=self.clusters.written.get(cluster))
            for one in self._waiting.remove(cluster, is_done):
                self.counts.rows += 1
                self.counts.payload_bytes += one.payload_bytes
                self.counts.acknowledged_at = time.monotonic()
        done_to = self._waiting.done_to()
        if done_to is None:
            return
        self._journal.commit(done_to)
        self._pause_s = 0.0
        if self.counts.failing is not None:
            self.counts.failing = None
            _LOG.warning("rows are written to the topic %s again", self._topic.topic)

    def _on_error(self, error: KafkaError) -> None:
        # Of a lost connection librdkafka recovers by itself; a refused login needs the secrets to be read again.
        if error.fatal() or librdkafka.authentication_failed(error):
            self._failed = error
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._report(reason(error, self._topic))

    def _reported_reason(self) -> str | None:
        return None if self._failed is None else reason(self._failed, self._topic)

    def _reopen_later(self, why: str) -> None:
        self.counts.errors += 1
        self._close()
        self._pause_s = min(_LONGEST_PAUSE_S, max(1.0, 2 * self._pause_s))
        self._retry_at = time.monotonic() + self._pause_s
        self._report(why)

    def _report(self, why: str) -> None:
        if self.counts.failing != why:
            _LOG.warning(
                "no row can be written to the topic %s: %s; the relay keeps them and retries", self._topic.topic, why
            )
        self.counts.failing = why

    def _close(self) -> None:
        """Closes the connections and drops unacknowledged messages: they are sent again from the journal."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaException):
                producer.purge()
            producer.poll(0)
        self._tail.close()
