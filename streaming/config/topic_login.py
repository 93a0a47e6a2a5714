"""The connection to a topic from the keys of TLS and SASL."""

from pathlib import Path

from pydantic import SecretStr

from connectors.secret import Secret
from connectors.sinks.sink_config import KafkaTopic
from streaming.config.kafka_security import LoginSection


class TopicLogin(LoginSection):
    """The keys of TLS and SASL for a topic."""

    def kafka_topic(self, bootstrap: tuple[str, ...], topic: str, *, create: bool) -> KafkaTopic:
        """Returns the settings of the connection."""
        token = self.sasl_oauth_token_file
        return KafkaTopic(
            bootstrap=bootstrap,
            topic=topic,
            create=create,
            security_protocol=self.security_protocol,
            ca_file=self.ssl_cafile,
            certificate_file=self.ssl_certfile,
            key_file=self.ssl_keyfile,
            key_password=_secret(self.ssl_password, self.ssl_password_file),
            crl_file=self.ssl_crlfile,
            check_hostname=self.ssl_check_hostname,
            mechanism=self.sasl_mechanism,
            username=self.sasl_plain_username,
            password=_secret(self.sasl_plain_password, self.sasl_plain_password_file),
            token=None if token is None else Secret(file=token),
        )

    def check_topic_login(self) -> None:
        """Checks that the keys fit together.

        Raises:
            ValueError: a key is missing, has no effect, or is not supported for topics.
        """
        self.check_login()
        if self.sasl_mechanism == "GSSAPI":
            raise ValueError(
                "sasl_mechanism GSSAPI is not supported for topics: the wheel of confluent-kafka does not contain it"
            )


def _secret(text: SecretStr | None, file: Path | None) -> Secret | None:
    if text is None and file is None:
        return None
    return Secret(text=None if text is None else text.get_secret_value(), file=file)
