"""Opens the producer of the relay's topic; creates the topic where the configuration says so."""

import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from connectors.relay.relay_message import TopicError
from connectors.settings import TopicConnection
from connectors.sinks import librdkafka

MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
"""The largest compressed batch that a created topic accepts; a piece of a snapshot has 8 MiB before compression."""
TIMESTAMP_TYPE, LOG_APPEND_TIME = "message.timestamp.type", "LogAppendTime"
_PARTITIONS = 4
_RETENTION_MS = 7 * 24 * 3_600_000
_METADATA_S = 2.0
_POLL_S = 0.1

ErrorCallback = Callable[[KafkaError], None]


def check_settings(topic: TopicConnection) -> None:
    """Checks the settings without a connection.

    Raises:
        UsageError: a secret cannot be read.
        TopicError: librdkafka rejects a setting.
    """
    settings = librdkafka.settings(topic)
    try:
        Producer(settings)
    except KafkaException as problem:
        raise TopicError(reason(problem.args[0], topic)) from None


def open_producer(topic: TopicConnection, *, on_error: ErrorCallback, within_s: float) -> Any:
    """Returns a producer that writes each message once and in order, as long as it lives.

    Args:
        topic: the connection.
        on_error: receives the errors that librdkafka reports.
        within_s: how long to wait for the topic's metadata.

    Raises:
        UsageError: a secret cannot be read.
        TopicError: no broker answers, the login is refused, or the topic does not exist.
    """
    until = time.monotonic() + within_s
    settings = librdkafka.settings(topic)
    try:
        producer = Producer(
            {
                **settings,
                "enable.idempotence": True,
                "acks": "all",
                "compression.type": "zstd",
                # As in Kafka's Java client, so that other producers of the same keys choose the same partition.
                "partitioner": "murmur2",
                # One request at a time: a broker that does not lead the partition yet may reject the first message,
                # accept the second as the producer's first, and then answer "duplicate" to the first, which is lost.
                "max.in.flight.requests.per.connection": 1,
                # No timeout: what is not acknowledged is sent until it is.
                "message.timeout.ms": 0,
                "linger.ms": 5,
                # librdkafka compares the size before compression; the broker compares the compressed one.
                "message.max.bytes": 256 * 1024 * 1024,
                "queue.buffering.max.kbytes": 64 * 1024,
                "error_cb": on_error,
            }
        )
        error = _topic_error(producer, topic, until)
        if topic.create and _missing(error):
            _create_topic(topic, settings, until)
            # The controller has the topic immediately, a broker a moment later.
            while _missing(error := _topic_error(producer, topic, until)) and time.monotonic() < until:
                producer.poll(_POLL_S)
    except KafkaException as problem:
        raise TopicError(reason(problem.args[0], topic)) from None
    if error is not None:
        raise TopicError(reason(error, topic))
    return producer


def reason(error: KafkaError, topic: TopicConnection) -> str:
    """Returns why something failed, in one sentence without a secret."""
    match error.code():
        case KafkaError.UNKNOWN_TOPIC_OR_PART | KafkaError._UNKNOWN_TOPIC:
            return f"the topic {topic.topic} does not exist: create it, or set create: true in relay"
        case KafkaError.MSG_SIZE_TOO_LARGE:
            return (
                f"a row is larger than the topic {topic.topic} accepts: set max.message.bytes of the topic to "
                f"{MESSAGE_BYTES_MAX}"
            )
        case KafkaError.INVALID_TIMESTAMP:
            return (
                "the brokers refuse the time of a row: correct the clock of the relay's host, or message.timestamp.* "
                f"of the topic {topic.topic}"
            )
        case _:
            return librdkafka.reason(error, topic.topic)


def _topic_error(producer: Any, topic: TopicConnection, until: float) -> KafkaError | None:
    while True:
        try:
            metadata = producer.list_topics(topic.topic, timeout=_METADATA_S)
        except KafkaException:
            # Only poll reports why there was no response.
            producer.poll(0)
            if time.monotonic() >= until:
                raise
        else:
            error: KafkaError | None = metadata.topics[topic.topic].error
            return error


def _create_topic(topic: TopicConnection, settings: dict[str, Any], until: float) -> None:
    config = {
        "max.message.bytes": str(MESSAGE_BYTES_MAX),
        "retention.ms": str(_RETENTION_MS),
        # A job compares the times of rows with it: a producer could give its messages any time.
        TIMESTAMP_TYPE: LOG_APPEND_TIME,
    }
    # -1: the cluster's default replication factor.
    new_topic = NewTopic(topic.topic, num_partitions=_PARTITIONS, replication_factor=-1, config=config)
    admin = AdminClient(settings)  # a variable, because its requests end when the client is collected
    left_s = max(1.0, until - time.monotonic())
    try:
        admin.create_topics([new_topic], operation_timeout=left_s)[topic.topic].result(left_s)
    except KafkaException as problem:
        if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _missing(error: KafkaError | None) -> bool:
    return error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
