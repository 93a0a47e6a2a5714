"""A producer that wants every record acknowledged by all in-sync replicas, while nodes restart."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, Producer

from tests.eventually import eventually
from tests.lab import Lab

TOPICS = ("orders", "payments")
DELIVERY_MS = 6_000
"""How long a producer tries: longer than an election takes, shorter than a start."""


@contextmanager
def producing(lab: Lab) -> Iterator[Counter[str]]:
    """Produces with acks=all; yields how many records were acknowledged, and how many failed, by error."""
    producer = Producer(
        {"bootstrap.servers": ",".join(lab.broker_bootstrap), "acks": "all", "message.timeout.ms": DELIVERY_MS}
    )
    counts, end = Counter[str](), threading.Event()

    def delivered(error: KafkaError | None, _message: object) -> None:
        counts["acknowledged" if error is None else str(error.name())] += 1

    def produce() -> None:
        while not end.wait(0.02):
            for topic in TOPICS:
                producer.produce(topic, b"record", on_delivery=delivered)
            producer.poll(0)
        producer.flush(DELIVERY_MS / 1000 * 2)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        eventually(lambda: counts["acknowledged"] > 0, within_s=30)
        yield counts
    finally:
        end.set()
        thread.join()
