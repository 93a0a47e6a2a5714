"""The Kafka topic sink: one message for each transition, keyed by the alert's fingerprint.

With that key, compaction keeps the newest transition of each alert. The message is the object that jsonl writes
(docs/alert.schema.json), with the headers rule, severity and state.

A message that was handed to librdkafka stays there until it is acknowledged, however long that takes: an idempotent
producer writes it once and in order, and a repeated notification waits for the same message. A transition can be in
the topic twice, with the same key and in the same order, only if this process ends in between or another sink
replaces this one.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakMethod

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import NewTopic

from connectors.errors import UsageError
from connectors.kafka import librdkafka
from connectors.settings.sections import TopicSection
from connectors.sinks.alert_json import to_line
from connectors.sinks.sink import Delivered, DeliveryOptions, Outcome, Rejected, Retry
from rules.alert import Alert, AlertKey
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification

_POLL_S = 0.1
_PERMANENT = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD}


class KafkaTopicSink:
    """Produces to one topic. It is connected only while messages are in flight."""

    def __init__(self, config: TopicSection, options: DeliveryOptions) -> None:
        """Checks the settings, without a connection."""
        self.options = options
        self._config = config
        self._producer: Any = None
        self._in_flight: dict[AlertKey, Outcome | None] = {}
        """What was handed to the producer, and its outcome; None until it is known."""
        self._error: KafkaError | None = None
        """The error that librdkafka reported in this call; an authentication error has precedence."""
        self._give_up = False
        try:
            Producer(librdkafka.settings(config))
        except KafkaException as problem:
            why = librdkafka.reason(problem.args[0], config.topic)
            raise UsageError(f"The sink {options.name} cannot be opened: {why}.") from None

    def send(
        self, notifications: Sequence[Notification], *, sent_at_ms: Millis, deadline_s: float
    ) -> Sequence[Outcome]:
        """Produces what is not in flight yet, and waits for all of it."""
        until = time.monotonic() + deadline_s
        self._error, self._give_up = None, False
        alerts = [notification.root for notification in notifications]
        try:
            if self._producer is None:
                self._producer = self._connected(until)
            for alert in alerts:
                self._produce(alert, sent_at_ms)
        except KafkaException as problem:
            self._close_producer()
            return [self._retry(problem.args[0])] * len(notifications)
        except UsageError as problem:
            return [Retry(reason=str(problem))] * len(notifications)
        while not self._give_up and None in self._in_flight.values() and (left := until - time.monotonic()) > 0:
            self._producer.poll(min(left, _POLL_S))
        outcomes = list(self._outcomes(alerts))
        error = self._error
        if not len(self._producer) or (
            error is not None and (error.fatal() or librdkafka.authentication_failed(error))
        ):
            self._close_producer()
        return outcomes

    def _connected(self, until: float) -> Any:
        topic = self._config.topic
        return librdkafka.open_producer(
            self._config,
            # A batch is rejected as a whole: one alert that is too large would take others with it.
            {"batch.num.messages": 1, "error_cb": _weak_callback(self._on_error)},
            # -1: the cluster's default replication factor.
            new_topic=NewTopic(topic, num_partitions=1, replication_factor=-1, config={"cleanup.policy": "compact"}),
            until=until,
            given_up=lambda: self._give_up,
        )

    def _produce(self, alert: Alert, sent_at_ms: Millis) -> None:
        key = alert.key
        if key in self._in_flight:
            return

        on_result = _weak_callback(self._on_result)
        headers = [("rule", alert.rule), ("severity", alert.severity.value), ("state", alert.state.value)]
        self._in_flight[key] = None
        try:
            value = to_line(alert, sent_at_ms).rstrip(b"\n")
            topic = self._config.topic
            self._producer.produce(
                topic, value, alert.fingerprint, on_delivery=partial(on_result, key), headers=headers
            )
        except KafkaException as problem:
            self._in_flight[key] = self._outcome(problem.args[0])

    def _on_result(self, key: AlertKey, error: KafkaError | None, _: Message) -> None:
        self._in_flight[key] = self._outcome(error)

    def _outcome(self, error: KafkaError | None) -> Outcome:
        if error is None:
            return Delivered()
        if error.code() in _PERMANENT:
            return Rejected(reason=librdkafka.reason(error, self._config.topic))
        return self._retry(error)

    def _outcomes(self, alerts: Sequence[Alert]) -> Iterator[Outcome]:
        retried: set[str] = set()
        """Fingerprints: a transition after one that is sent again is also sent again, to keep the order."""
        for alert in alerts:
            outcome = self._in_flight[alert.key]
            if outcome is None:
                yield self._retry(None)
                continue
            del self._in_flight[alert.key]
            if alert.fingerprint in retried:
                yield Retry(reason="an older transition of the same alert is pending", attempted=False)
                continue
            if isinstance(outcome, Retry):
                retried.add(alert.fingerprint)
            yield outcome

    def _retry(self, error: KafkaError | None) -> Retry:
        reported = self._error or error
        if reported is None:
            return Retry(reason="no acknowledgement in time")
        return Retry(reason=librdkafka.reason(reported, self._config.topic))

    def _on_error(self, error: KafkaError) -> None:
        authentication_failed = librdkafka.authentication_failed(error)
        if self._error is None or authentication_failed:
            self._error = error
        hopeless = error.fatal() or authentication_failed or error.code() == KafkaError._ALL_BROKERS_DOWN
        self._give_up = self._give_up or hopeless

    def _close_producer(self) -> None:
        """Closes the producer and drops its unacknowledged messages: they are sent again."""
        if self._producer is not None:
            with suppress(KafkaException):
                self._producer.purge()
            self._producer.poll(0)
            self._producer = None
        self._in_flight.clear()


def _weak_callback(method: Callable[..., None]) -> Callable[..., None]:
    """Returns a callback that does not keep its sink alive, so that a replaced sink's producer ends.

    Otherwise that producer would later write its messages: older transitions than those of the new sink.
    """
    reference = WeakMethod(method)

    def call(*arguments: object) -> None:
        target = reference()
        if target is not None:
            target(*arguments)

    return call
