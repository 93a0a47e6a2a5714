"""A topic of alerts as its readers see it, by a client that may read all."""

import json
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from deploy.lab.lab import Lab


def reaching(kafka: Lab) -> dict[str, Any]:
    return {"bootstrap.servers": ",".join(kafka.broker_bootstrap), "log_level": 0, **kafka.security.client()}


def messages(kafka: Lab, topic: str) -> list[Any]:
    """All that the topic holds, in order."""
    consumer = Consumer({**reaching(kafka), "group.id": "test", "enable.auto.commit": False})
    try:
        there = TopicPartition(topic, 0, OFFSET_BEGINNING)
        _, end = consumer.get_watermark_offsets(there, timeout=60)
        consumer.assign([there])
        held: list[Any] = []
        position = 0
        while position < end:
            message = consumer.poll(60)
            assert message is not None
            assert message.error() is None, message.error()
            held.append(message)
            position = message.offset() + 1
        return held
    finally:
        consumer.close()


def said(kafka: Lab, topic: str) -> list[tuple[str, str]]:
    bodies = [json.loads(message.value()) for message in messages(kafka, topic)]
    return [(body["subject"], body["state"]) for body in bodies]
