"""librdkafka for the topic sink: its settings, its log, and readable reasons for its errors."""

import logging
import time
from typing import Any

from confluent_kafka import KafkaError

from connectors.secret import Secret, redact
from connectors.settings import TopicConnection
from connectors.sinks.http_request import excerpt

_LOG = logging.getLogger(__name__)
_TOKEN_LASTS_S = 300.0
"""After this time the token's file is read again, if a connection is still open."""
_UNREACHABLE = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
}
_AUTHENTICATION = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED}


def settings(config: TopicConnection) -> dict[str, Any]:
    """Returns librdkafka's settings for the brokers. Secrets are read at each call.

    Raises:
        UsageError: a secret cannot be read.
    """
    required: dict[str, Any] = {
        "bootstrap.servers": ",".join(config.bootstrap),
        "client.id": "kraftwatch",
        "security.protocol": config.security_protocol,
        "logger": _DebugLog(),
        # Otherwise a broker with auto-creation would create the topic, not compacted, when it is looked up.
        "allow.auto.create.topics": False,
        # A rejected login is not retried three times a second: directory services lock accounts for that.
        "reconnect.backoff.ms": 1_000,
    }
    optional = {
        "ssl.ca.location": config.ca_file,
        "ssl.certificate.location": config.certificate_file,
        "ssl.key.location": config.key_file,
        "ssl.crl.location": config.crl_file,
        "ssl.key.password": config.key_password,
        "ssl.endpoint.identification.algorithm": None if config.check_hostname else "none",
        "sasl.mechanism": config.mechanism,
        "sasl.username": config.username,
        "sasl.password": config.password,
    }
    token = config.token
    if token is not None:
        token.read()
        required["oauth_cb"] = lambda _: (token.read(), time.time() + _TOKEN_LASTS_S)
    texts = {name: value.read() if isinstance(value, Secret) else value for name, value in optional.items()}
    return {**required, **{name: str(value) for name, value in texts.items() if value is not None}}


def reason(error: KafkaError, topic: str) -> str:
    """Returns why something failed, one sentence without a secret."""
    code = error.code()
    message = excerpt(error.str())
    if code in _AUTHENTICATION:
        return f"authentication or TLS failed: {message}"
    if code in _UNREACHABLE:
        return f"no broker is reachable ({message})"
    match code:
        case KafkaError.UNKNOWN_TOPIC_OR_PART | KafkaError._UNKNOWN_TOPIC:
            return f"the topic {topic} does not exist: create it with cleanup.policy=compact, or set create: true"
        case KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return f"missing permission on the topic {topic}: the login needs DESCRIBE and WRITE"
        case KafkaError.MSG_SIZE_TOO_LARGE:
            return f"the message is larger than the topic {topic} accepts, or than 1 MB"
        case _:
            return message


def authentication_failed(error: KafkaError) -> bool:
    """Returns whether the login or a certificate was rejected: a client reads them once, so a new one is needed."""
    return error.code() in _AUTHENTICATION


class _DebugLog:
    """Receives librdkafka's own log, which would go to stderr: it repeats each unreachable broker."""

    def log(self, level: int, text: str, *values: object) -> None:
        """Logs everything at DEBUG: what matters is also reported as an error."""
        del level
        _LOG.debug("%s", redact(text % values))
