"""The Kafka topic as a sink: its settings, and what the doctor and the test notification need.

The sink itself is in `kafka_topic`, which needs librdkafka.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from connectors.settings.sections import Bootstrap, TopicName, TopicSection, host_port
from connectors.sinks.sink import DeliveryMode, Sink
from connectors.sinks.sink_config import TEST_RULE, MessageLinks, SinkSection, SinkServer
from connectors.store.store_place import StorePlace


class KafkaSection(SinkSection, TopicSection):
    """A topic of any Kafka cluster: one message per transition, keyed by the alert's fingerprint."""

    form = "kafka:HOST:PORT,…/TOPIC"
    expected = f"topic {{section.topic}} has two new messages with rule {TEST_RULE}: firing and resolved"
    mode = DeliveryMode.TRANSITIONS

    bootstrap: Bootstrap
    """HOST:PORT of brokers, preferably of a cluster that is not monitored: a failing cluster may lose alerts."""
    topic: TopicName
    """Its cleanup.policy should be compact, which keeps the newest transition of every alert."""
    create: bool = False
    """`true` creates a missing topic: compacted, with one partition."""

    @classmethod
    def keys_of_text(cls, text: str) -> Mapping[str, Any]:
        """Returns the brokers and the topic."""
        addresses, slash, topic = text.rpartition("/")
        if not slash:
            raise ValueError("kafka needs brokers and a topic: write kafka:HOST:PORT,HOST:PORT/TOPIC")
        return {"bootstrap": addresses.split(","), "topic": topic}

    def default_name(self) -> str:
        """Returns the name in the ledger."""
        return f"kafka:{','.join(self.bootstrap)}/{self.topic}"

    def open(self, links: MessageLinks, store: StorePlace) -> Sink:
        """Opens the sink."""
        from connectors.sinks.kafka_topic import KafkaTopicSink

        return KafkaTopicSink(self, self.options)

    def servers(self) -> Sequence[SinkServer]:
        """Returns the brokers; their TLS handshake is librdkafka's, with its own settings."""
        return [SinkServer(host=host, port=port) for host, port in map(host_port, self.bootstrap)]
