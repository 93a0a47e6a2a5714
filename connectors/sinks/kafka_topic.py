"""A Kafka topic: one message a transition, keyed by the alert's fingerprint, so that compaction keeps its newest word.

The message is the object that jsonl writes (docs/alert.schema.json), with the headers rule, severity and state.

What was handed to librdkafka is its business until it is acknowledged, however long that takes: an idempotent
producer writes it once and in its place, and whoever tells it again meanwhile waits for that same message. Only
where this process ends in the midst, or another sink takes this one's place, may a transition be there twice, under
the same key and in the same order.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakMethod

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from connectors.errors import UsageError
from connectors.sinks import librdkafka
from connectors.sinks.alert_json import Key, to_line
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry, Terms
from connectors.sinks.sink_config import KafkaTopic
from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.notifications.notification import Notice

_LOG = logging.getLogger(__name__)
_POLL_S = 0.1
_LOOK_S = 1.0
_NEVER_TAKEN = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD}


class KafkaTopicSink:
    """Produces to one topic. It is connected only while something is on its way."""

    def __init__(self, place: KafkaTopic, *, terms: Terms) -> None:
        """Try the settings once, without a connection.

        Raises:
            UsageError: a secret cannot be read, or librdkafka takes a setting amiss.
        """
        self.terms = terms
        self._place = place
        self._producer: Any = None
        self._under_way: dict[Key, Outcome | None] = {}
        """What the producer was given, and what came of it."""
        self._trouble: KafkaError | None = None
        """What librdkafka complains of in this call: the login before the connection."""
        self._given_up = False
        try:
            Producer(librdkafka.settings(place))
        except KafkaException as problem:
            why = librdkafka.reason(problem.args[0], place.topic)
            raise UsageError(f"The sink {terms.name} cannot be: {why}.") from None

    def tell(self, notices: Sequence[Notice], *, sent_at_ms: Millis, deadline_s: float) -> Sequence[Outcome]:
        """Produce what is not on its way yet, and wait for all of it."""
        until = time.monotonic() + deadline_s
        self._trouble, self._given_up = None, False
        alerts = [notice.root for notice in notices]
        try:
            if self._producer is None:
                self._producer = self._connected(until)
            for alert in alerts:
                self._produce(alert, sent_at_ms)
        except KafkaException as problem:
            self._end()
            return [self._retry(problem.args[0])] * len(notices)
        except UsageError as problem:
            return [Retry(reason=str(problem))] * len(notices)
        while not self._given_up and None in self._under_way.values() and (left := until - time.monotonic()) > 0:
            self._producer.poll(min(left, _POLL_S))
        outcomes = list(self._outcomes(alerts))
        trouble = self._trouble
        if not len(self._producer) or (trouble is not None and (trouble.fatal() or librdkafka.refused(trouble))):
            self._end()
        return outcomes

    def _connected(self, until: float) -> Any:
        given = librdkafka.settings(self._place)
        producer = Producer(
            {
                **given,
                "enable.idempotence": True,
                "acks": "all",
                # One after the other: a broker that does not lead the partition yet may refuse the first message, take
                # the second as the producer's first, and then answer "duplicate" to the first, which is lost.
                "max.in.flight.requests.per.connection": 1,
                # Never given up: were a message to fail where a later one is taken, the older word would be the last.
                "message.timeout.ms": 0,
                # A batch is refused as a whole: one alert that is too large would take others with it.
                "batch.num.messages": 1,
                "error_cb": _while_there(self._complain),
            }
        )
        error = self._topic_error(producer, until)
        if self._place.create and _missing(error):
            self._create_topic(given, until)
            # The controller has it at once, a broker a moment later.
            while _missing(error := self._topic_error(producer, until)) and time.monotonic() < until:
                producer.poll(_POLL_S)
        if error is not None:
            raise KafkaException(error)
        return producer

    def _topic_error(self, producer: Any, until: float) -> KafkaError | None:
        """What the brokers say of the topic: a producer would wait half a minute for one that is not there."""
        topic = self._place.topic
        while True:
            try:
                seen: KafkaError | None = producer.list_topics(topic, timeout=_LOOK_S).topics[topic].error
            except KafkaException:
                # Why it got no answer is told by poll alone.
                producer.poll(0)
                if self._given_up or time.monotonic() >= until:
                    raise
            else:
                return seen

    def _create_topic(self, given: dict[str, Any], until: float) -> None:
        topic = self._place.topic
        # -1: as many replicas as the cluster gives by default.
        wanted = NewTopic(topic, num_partitions=1, replication_factor=-1, config={"cleanup.policy": "compact"})
        admin = AdminClient(given)  # named, because its requests die with it
        try:
            admin.create_topics([wanted], operation_timeout=_left_s(until))[topic].result(_left_s(until))
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return  # somebody else was faster
        _LOG.info("%s: created the topic %s with cleanup.policy=compact.", self.terms.name, topic)

    def _produce(self, alert: Alert, sent_at_ms: Millis) -> None:
        key = alert.key
        if key in self._under_way:
            return

        hear = _while_there(self._hear)

        def heard(error: KafkaError | None, _: Message) -> None:
            hear(key, error)

        headers = [("rule", alert.rule), ("severity", alert.severity.value), ("state", alert.state.value)]
        self._under_way[key] = None
        try:
            value = to_line(alert, sent_at_ms).rstrip(b"\n")
            self._producer.produce(self._place.topic, value, alert.fingerprint, on_delivery=heard, headers=headers)
        except KafkaException as problem:
            self._under_way[key] = self._outcome(problem.args[0])

    def _hear(self, key: Key, error: KafkaError | None) -> None:
        self._under_way[key] = self._outcome(error)

    def _outcome(self, error: KafkaError | None) -> Outcome:
        if error is None:
            return Delivered()
        if error.code() in _NEVER_TAKEN:
            return Rejected(reason=librdkafka.reason(error, self._place.topic))
        return self._retry(error)

    def _outcomes(self, alerts: Sequence[Alert]) -> Iterator[Outcome]:
        waiting: set[str] = set()
        """Fingerprints: what comes after a word that is to be told again is told again after it."""
        for alert in alerts:
            outcome = self._under_way[alert.key]
            if outcome is None:
                yield self._retry(None)
                continue
            del self._under_way[alert.key]
            if isinstance(outcome, Retry):
                waiting.add(alert.fingerprint)
            yield Retry(reason="an older word of it waits") if alert.fingerprint in waiting else outcome

    def _retry(self, error: KafkaError | None) -> Retry:
        told = self._trouble or error
        if told is None:
            return Retry(reason="it has not acknowledged in time")
        return Retry(reason=librdkafka.reason(told, self._place.topic))

    def _complain(self, error: KafkaError) -> None:
        if self._trouble is None or librdkafka.refused(error):
            self._trouble = error
        hopeless = error.fatal() or librdkafka.refused(error) or error.code() == KafkaError._ALL_BROKERS_DOWN
        self._given_up = self._given_up or hopeless

    def _end(self) -> None:
        """Let the producer go, and what it may still hold: that is told again."""
        if self._producer is not None:
            with suppress(KafkaException):
                self._producer.purge()
            self._producer.poll(0)
            self._producer = None
        self._under_way.clear()


def _while_there(method: Callable[..., None]) -> Callable[..., None]:
    """A callback that does not keep its sink, so that the producer of one that was replaced ends, and what it holds.

    Else it would write that whenever it can: an older word than what its successor has told since.
    """
    there = WeakMethod(method)

    def call(*said: object) -> None:
        hears = there()
        if hears is not None:
            hears(*said)

    return call


def _missing(error: KafkaError | None) -> bool:
    return error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def _left_s(until: float) -> float:
    return max(0.1, until - time.monotonic())
