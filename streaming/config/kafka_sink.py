"""The configuration of a Kafka topic as a sink."""

from pydantic import Field, model_validator

from connectors.sinks.sink_config import SinkConfig
from streaming.config.address import Bootstrap
from streaming.config.sink_options import SinkSection
from streaming.config.topic_login import TopicLogin


class KafkaSection(SinkSection, TopicLogin):
    """A topic of any Kafka cluster: one message per transition, keyed by the alert's fingerprint."""

    bootstrap: Bootstrap
    """HOST:PORT of brokers, preferably of a cluster that is not monitored: a failing cluster may lose alerts."""
    topic: str = Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=249)
    """Its cleanup.policy should be compact, which keeps the newest transition of every alert."""
    create: bool = False
    """`true` creates a missing topic: compacted, with one partition."""

    @model_validator(mode="after")
    def _login(self) -> "KafkaSection":
        self.check_topic_login()
        return self

    def sink_config(self) -> SinkConfig:
        """Returns the settings of the sink's kind and address."""
        return self.kafka_topic(self.bootstrap, self.topic, create=self.create)
