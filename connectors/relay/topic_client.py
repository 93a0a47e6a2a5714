"""The clients of the relay's topic: its producer, which creates the topic where needed, and its consumers."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import NewTopic

from connectors.relay.relay_message import TopicError
from connectors.settings import TopicSection
from connectors.sinks import librdkafka
from connectors.wall_clock import wall_ms

MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
"""The largest compressed batch that a created topic accepts; a piece of a snapshot has 8 MiB before compression."""
TIMESTAMP_TYPE, LOG_APPEND_TIME = "message.timestamp.type", "LogAppendTime"
_PARTITIONS = 4
_RETENTION_MS = 7 * 24 * 3_600_000


def check_settings(topic: TopicSection) -> None:
    """Checks the settings without a connection.

    Raises UsageError if a secret cannot be read, TopicError if librdkafka rejects a setting.
    """
    settings = librdkafka.settings(topic)
    try:
        Producer(settings)
    except KafkaException as problem:
        raise TopicError(reason(problem.args[0], topic)) from None


def open_producer(topic: TopicSection, *, on_error: Callable[[KafkaError], None], within_s: float) -> Any:
    """Returns a producer that writes each message once and in order, as long as it lives.

    `on_error` receives the errors that librdkafka reports; `within_s`: how long to wait for the topic's metadata.

    Raises UsageError if a secret cannot be read, TopicError if no broker answers, the login is refused, or the topic
    does not exist.
    """
    further = {
        "compression.type": "zstd",
        # As in Kafka's Java client, so that other producers of the same keys choose the same partition.
        "partitioner": "murmur2",
        "linger.ms": 5,
        # librdkafka compares the size before compression; the broker compares the compressed one.
        "message.max.bytes": 256 * 1024 * 1024,
        "queue.buffering.max.kbytes": 64 * 1024,
        "error_cb": on_error,
    }
    config = {
        "max.message.bytes": str(MESSAGE_BYTES_MAX),
        "retention.ms": str(_RETENTION_MS),
        # A job compares the times of rows with it: a producer could give its messages any time.
        TIMESTAMP_TYPE: LOG_APPEND_TIME,
    }
    # -1: the cluster's default replication factor.
    new_topic = NewTopic(topic.topic, num_partitions=_PARTITIONS, replication_factor=-1, config=config)
    try:
        return librdkafka.open_producer(topic, further, new_topic=new_topic, until=time.monotonic() + within_s)
    except KafkaException as problem:
        raise TopicError(reason(problem.args[0], topic)) from None


def open_consumer(topic: TopicSection, further: Mapping[str, Any] | None = None) -> Any:
    """Returns a consumer that joins no group and commits nothing.

    Raises UsageError if a secret cannot be read, TopicError if librdkafka rejects a setting.
    """
    try:
        return Consumer(
            {
                **librdkafka.settings(topic),
                # A consumer needs a group id.
                "group.id": "kraftwatch-relay",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **(further or {}),
            }
        )
    except KafkaException as problem:
        raise TopicError(reason(problem.args[0], topic)) from None


def partitions(consumer: Any, topic: TopicSection, *, timeout_s: float) -> Sequence[int]:
    """Returns the numbers of the topic's partitions, in order.

    Raises TopicError if the topic does not exist, or the login may not read it, KafkaException if no broker answers.
    """
    metadata = consumer.list_topics(topic.topic, timeout=timeout_s).topics[topic.topic]
    if metadata.error is not None:
        raise TopicError(reason(metadata.error, topic))
    return sorted(metadata.partitions)


def appended_at_ms(message: Message) -> int:
    """Returns when the broker appended the message.

    A producer can give its message any time: such a time counts only as far as it has been reached.
    """
    kind, at_ms = message.timestamp()
    return int(at_ms if kind == TIMESTAMP_LOG_APPEND_TIME else min(at_ms, wall_ms()))


def reason(error: KafkaError, topic: TopicSection) -> str:
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
