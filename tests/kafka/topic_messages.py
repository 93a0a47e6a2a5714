"""Reads the committed messages of a topic."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.eventually import eventually

NO_LEADER_YET = {KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION}
"""Errors of a partition that has just been created, or of a broker that has just started."""


def topic_messages(bootstrap: str, topic: str, login: Mapping[str, Any] | None = None) -> list[Message]:
    """Returns all messages of a topic, partition by partition; none while it does not exist."""
    settings = {"group.id": "test", "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings, **(login or {})})
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        return [one for number in sorted(partitions) for one in _partition(consumer, topic, number)]
    finally:
        consumer.close()


def _partition(consumer: Any, topic: str, number: int) -> list[Message]:
    partition = TopicPartition(topic, number, OFFSET_BEGINNING)
    end = eventually(lambda: _end(consumer, partition), within_s=30, every_s=1)
    consumer.assign([partition])
    received: list[Message] = []
    position = 0
    while position < end:
        message = consumer.poll(60)
        assert message is not None
        error = message.error()
        if error is not None:
            # The last offsets are those of the markers with which transactions end.
            assert error.code() == KafkaError._PARTITION_EOF, error
            position = message.offset()
            continue
        received.append(message)
        position = message.offset() + 1
    return received


def _end(consumer: Any, partition: TopicPartition) -> int:
    try:
        _, end = consumer.get_watermark_offsets(partition, timeout=60)
    except KafkaException as error:
        if error.args[0].code() not in NO_LEADER_YET:
            raise
        raise AssertionError(error) from None
    return int(end)
