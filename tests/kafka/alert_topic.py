"""Reads a topic of alerts as the admin."""

import json
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.lab import Lab


def admin_config(kafka: Lab) -> dict[str, Any]:
    """Returns librdkafka's settings for the admin."""
    return {"bootstrap.servers": ",".join(kafka.broker_bootstrap), "log_level": 0, **kafka.security.client()}


def messages(kafka: Lab, topic: str) -> list[Any]:
    """Returns all messages of the topic in order."""
    consumer = Consumer({**admin_config(kafka), "group.id": "test", "enable.auto.commit": False})
    try:
        partition = TopicPartition(topic, 0, OFFSET_BEGINNING)
        _, end = consumer.get_watermark_offsets(partition, timeout=60)
        consumer.assign([partition])
        received: list[Any] = []
        position = 0
        while position < end:
            message = consumer.poll(60)
            assert message is not None
            assert message.error() is None, message.error()
            received.append(message)
            position = message.offset() + 1
        return received
    finally:
        consumer.close()


def alert_states(kafka: Lab, topic: str) -> list[tuple[str, str]]:
    """Returns subject and state of each alert in the topic."""
    bodies = [json.loads(message.value()) for message in messages(kafka, topic)]
    return [(body["subject"], body["state"]) for body in bodies]
