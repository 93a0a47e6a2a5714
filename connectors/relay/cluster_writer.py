"""ClusterWriter: writes the rows of one cluster to the topic, in transactions that Kafka refuses once it was replaced.

All relays of a cluster use the same transactional id. A writer that is opened fences those before it: what they have
in flight is aborted or refused, and each of them finds that out with its next transaction. A reader of committed
messages sees either all rows of a transaction or none. Errors are not repaired: a new writer is opened, which aborts
what the former one began.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message

from connectors.errors import KraftwatchError
from connectors.kafka import librdkafka
from connectors.relay.relay_message import RelayMessage, TopicError
from connectors.relay.topic_client import TRANSACTION_S, open_producer, reason
from connectors.settings.sections import TopicSection

_CONNECT_S: Final = 10.0
_ABORT_S: Final = 2.0
_POLL_S: Final = 0.5
_FENCED: Final = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}


class FencedError(KraftwatchError):
    """Another writer of the same cluster was opened since."""


class ClusterWriter:
    """Writes one cluster's rows. Its methods wait for the brokers, and are not called at the same time.

    Each raises FencedError, or TopicError if the topic cannot be written now; the writer is then of no further use.
    """

    def __init__(self, topic: TopicSection, cluster: str) -> None:
        """Connects to nothing yet."""
        self._topic = topic
        self._cluster = cluster
        self._producer: Any = None
        self._reported: KafkaError | None = None
        """An error that librdkafka reported, or with which a row was refused: more exact than that of a transaction."""
        self.partition: int | None = None
        """In which the rows are: they stay there, also after partitions were added. None: the topic has none yet."""

    def open(self) -> "ClusterWriter":
        """Connects, and fences the writers before. Raises UsageError if a secret cannot be read."""
        try:
            self._producer = open_producer(
                self._topic, on_error=self._on_error, within_s=_CONNECT_S, transactions_of=self._cluster
            )
            self._producer.init_transactions(_CONNECT_S)
        except TopicError:
            # What librdkafka reported meanwhile is more exact than the timeout.
            if self._reported is None:
                raise
            raise TopicError(reason(self._reported, self._topic)) from None
        except KafkaException as problem:
            error = problem.args[0]
            if error.code() == KafkaError._TIMED_OUT:
                # The brokers have just answered where the topic is.
                error = KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE)
            raise self._error(error) from None
        return self

    def send(self, messages: Sequence[RelayMessage]) -> None:
        """Writes rows in one transaction."""
        place = {} if self.partition is None else {"partition": self.partition}
        try:
            self._producer.poll(0)
            self._reported = None
            self._producer.begin_transaction()
            for message in messages:
                self._producer.produce(
                    self._topic.topic,
                    message.value(),
                    message.key,
                    headers=list(message.headers),
                    timestamp=message.observation.observed_at_ms,
                    on_delivery=self._on_delivery,
                    **place,
                )
            self._wait_for_acknowledgements()
            self._producer.commit_transaction(TRANSACTION_S)
        except KafkaException as problem:
            error = self._error(problem.args[0])
            with suppress(KafkaException):
                # Otherwise readers wait until the brokers abort it.
                self._producer.abort_transaction(_ABORT_S)
            raise error from None

    def _wait_for_acknowledgements(self) -> None:
        until = time.monotonic() + TRANSACTION_S
        # Unlike `poll`, `flush` has no exception to raise for a fatal error, such as that of a writer that is fenced.
        while len(self._producer):
            self._producer.poll(_POLL_S)
            if self._reported is not None or time.monotonic() >= until:
                raise KafkaException(self._reported or KafkaError(KafkaError._TIMED_OUT))

    def _error(self, error: KafkaError) -> KraftwatchError:
        with suppress(KafkaException):
            self._producer.poll(0)
        if error.code() in _FENCED:
            return FencedError(f"another relay writes the rows of cluster {self._cluster}")
        return TopicError(reason(self._reported or error, self._topic))

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.partition = message.partition()
        elif error.code() not in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
            self._reported = self._reported or error

    def _on_error(self, error: KafkaError) -> None:
        if librdkafka.authentication_failed(error) or error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._reported = error
