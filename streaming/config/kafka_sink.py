"""The configuration of a Kafka topic as a sink."""

from pydantic import Field, model_validator

from connectors.secret import Secret
from connectors.sinks.sink_config import KafkaTopic, SinkConfig
from streaming.config.address import Bootstrap
from streaming.config.kafka_security import LoginSection
from streaming.config.sink_options import SinkSection


class KafkaSection(SinkSection, LoginSection):
    """A topic of any Kafka cluster: one message per transition, keyed by the alert's fingerprint."""

    bootstrap: Bootstrap
    """HOST:PORT of brokers, preferably of a cluster that is not monitored: a failing cluster may lose alerts."""
    topic: str = Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=249)
    """Its cleanup.policy should be compact, which keeps the newest transition of every alert."""
    create: bool = False
    """`true` creates a missing topic: compacted, with one partition."""

    @model_validator(mode="after")
    def _login(self) -> "KafkaSection":
        self.check_login()
        if self.sasl_mechanism == "GSSAPI":
            raise ValueError(
                "sasl_mechanism GSSAPI is not supported for topics: the wheel of confluent-kafka does not contain it"
            )
        return self

    def sink_config(self) -> SinkConfig:
        """Returns the settings of the sink's kind and address."""
        token = self.sasl_oauth_token_file
        return KafkaTopic(
            bootstrap=self.bootstrap,
            topic=self.topic,
            create=self.create,
            security_protocol=self.security_protocol,
            ca_file=self.ssl_cafile,
            certificate_file=self.ssl_certfile,
            key_file=self.ssl_keyfile,
            key_password=self.secret("ssl_password"),
            crl_file=self.ssl_crlfile,
            check_hostname=self.ssl_check_hostname,
            mechanism=self.sasl_mechanism,
            username=self.sasl_plain_username,
            password=self.secret("sasl_plain_password"),
            token=None if token is None else Secret(file=token),
        )
