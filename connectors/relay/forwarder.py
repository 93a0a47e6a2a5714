"""The forwarder: sends the published rows of a relay's journal to the topic, in order, until they are acknowledged.

The journal is the buffer. A row stays in it until the brokers have acknowledged the row and all rows before it; the
journal's `committed` position says how far that is. After a crash, and after each error of the producer, the forwarder
begins there again: rows may be sent twice, but none is left out.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message

from connectors.errors import UsageError
from connectors.observations.observation import Observation
from connectors.relay.relay_message import RelayMessage, TopicError
from connectors.relay.topic_producer import open_producer, reason
from connectors.settings import TopicConnection
from connectors.sinks import librdkafka
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
    """Acknowledged rows."""
    payload_bytes: int = 0
    """The same in bytes of payload."""
    errors: int = 0
    """How often the producer failed and was opened again."""
    acknowledged_at: float | None = None
    """Monotonic seconds of the newest acknowledgement."""
    failing: str | None = None
    """Why rows are not acknowledged now, in one sentence without a secret; None while they are."""


@dataclass(slots=True)
class _InFlight:
    sequence: int
    payload_bytes: int
    sent_at: float
    acknowledged: bool = False


@dataclass(slots=True)
class _Progress:
    next: int
    """The sequence of the next row to send."""
    rows: deque[_InFlight] = field(default_factory=deque)
    """Sent rows, oldest first, until they and all before them are acknowledged."""


class Forwarder:
    """Forwards one journal. Its methods are called by one thread."""

    def __init__(
        self, journal: JournalReader, topic: TopicConnection, message: Callable[[Observation], RelayMessage | None]
    ) -> None:
        """Connects at the first `forward`.

        Args:
            journal: of the relay; it exists.
            topic: the connection.
            message: returns the message of a row of the journal; None for a row that is not sent.
        """
        self._journal = journal
        self._topic = topic
        self._message = message
        self._producer: Any = None
        self._progress = _Progress(next=self._first())
        self._failed: KafkaError | None = None
        self._pause_s = 0.0
        self._retry_at = 0.0
        self.counts = ForwardCounts()

    def _first(self) -> int:
        return max(self._journal.committed_end(), self._journal.first_sequence())

    @property
    def waiting_rows(self) -> int:
        """The number of published rows that are not acknowledged."""
        return max(0, self._journal.published_end() - self._first())

    def forward(self, timeout_s: float) -> None:
        """Sends what is published, and commits what is acknowledged; waits at most `timeout_s` for a new row.

        Raises:
            JournalError: the journal cannot be read or its position not be written.
        """
        if self._producer is None and not self._opened(timeout_s):
            return
        rows = self._progress.rows
        published = self._journal.wait_beyond(self._progress.next, 0.005 if rows else timeout_s)
        try:
            for row in self._journal.read(self._progress.next, min(published, self._progress.next + _ROWS_AT_ONCE)):
                self._send(row)
        except BufferError:
            # Its queue is full: the brokers are slower than the journal.
            self._producer.poll(min(0.1, timeout_s))
        except KafkaException as problem:
            self._failed = self._failed or problem.args[0]
        self._producer.poll(0)
        self._commit()
        if self._failed is not None:
            self._reopen_later(reason(self._failed, self._topic))
        elif rows and time.monotonic() - rows[0].sent_at > _UNACKNOWLEDGED_S:
            self._report("no broker has acknowledged a row in time")

    def skip_to(self, sequence: int) -> int:
        """Gives up the rows below `sequence`, acknowledged or not; returns how many were not."""
        skipped = max(0, sequence - self._first())
        self._close()
        self._journal.commit(sequence)
        self._progress = _Progress(next=sequence)
        return skipped

    def close(self, timeout_s: float) -> None:
        """Sends what is published, for at most this time, and closes the producer."""
        until = time.monotonic() + timeout_s
        while self._producer is not None and self.waiting_rows and time.monotonic() < until:
            self.forward(0.1)
        self._close()

    def _opened(self, timeout_s: float) -> bool:
        if time.monotonic() < self._retry_at:
            time.sleep(min(timeout_s, max(0.0, self._retry_at - time.monotonic())))
            return False
        self._failed = None
        try:
            self._producer = open_producer(self._topic, on_error=self._on_error, within_s=_CONNECT_S)
        except (TopicError, UsageError) as problem:
            # What librdkafka reported meanwhile is more exact than the timeout.
            self._reopen_later(self._reported_reason() or str(problem))
            return False
        self._progress = _Progress(next=self._first())
        return True

    def _send(self, row: Observation) -> None:
        message = self._message(row)
        entry = _InFlight(row.sequence, len(row.payload), time.monotonic(), acknowledged=message is None)
        if message is not None:
            self._producer.produce(
                self._topic.topic,
                message.value(),
                message.key,
                headers=list(message.headers),
                timestamp=row.observed_at_ms,
                on_delivery=partial(self._on_delivery, entry),
            )
        self._progress.rows.append(entry)
        self._progress.next = row.sequence + 1

    def _on_delivery(self, entry: _InFlight, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed = self._failed or error
            return
        entry.acknowledged = True

    def _on_error(self, error: KafkaError) -> None:
        # Of a lost connection librdkafka recovers by itself; a refused login needs the secrets to be read again.
        if error.fatal() or librdkafka.authentication_failed(error):
            self._failed = error
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._report(reason(error, self._topic))

    def _commit(self) -> None:
        rows, done = self._progress.rows, None
        while rows and rows[0].acknowledged:
            done = rows.popleft()
            self.counts.rows += 1
            self.counts.payload_bytes += done.payload_bytes
        if done is not None:
            self._journal.commit(done.sequence + 1)
            self.counts.acknowledged_at = time.monotonic()
            self._pause_s = 0.0
            if self.counts.failing is not None:
                self.counts.failing = None
                _LOG.warning("rows are written to the topic %s again", self._topic.topic)

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
        """Closes the producer and drops its unacknowledged messages: they are sent again from the journal."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaException):
                producer.purge()
            producer.poll(0)
        self._progress.rows.clear()
