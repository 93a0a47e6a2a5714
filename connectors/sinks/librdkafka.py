"""librdkafka's side of a topic: its settings, its log, and its errors in our words."""

import logging
import time
from typing import Any

from confluent_kafka import KafkaError

from connectors.secret import Secret
from connectors.sinks.error_redaction import redact
from connectors.sinks.http.response_outcome import excerpt
from connectors.sinks.sink_config import KafkaTopic

_LOG = logging.getLogger(__name__)
_TOKEN_LASTS_S = 300.0
"""Then the file is read again, if a connection is still there."""
_UNREACHABLE = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
}
_REFUSED = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED}


def settings(place: KafkaTopic) -> dict[str, Any]:
    """How any client of librdkafka reaches the brokers. Secrets are read anew.

    Raises:
        UsageError: one cannot be read.
    """
    given: dict[str, Any] = {
        "bootstrap.servers": ",".join(place.bootstrap),
        "client.id": "kraftwatch",
        "security.protocol": place.security_protocol,
        "logger": _Quiet(),
        # Else a broker that is so configured makes the topic, not compacted, while we ask whether it is there.
        "allow.auto.create.topics": False,
        # A login that is refused is not tried three times a second: directories lock accounts over that.
        "reconnect.backoff.ms": 1_000,
    }
    optional = {
        "ssl.ca.location": place.ca_file,
        "ssl.certificate.location": place.certificate_file,
        "ssl.key.location": place.key_file,
        "ssl.crl.location": place.crl_file,
        "ssl.key.password": place.key_password,
        "ssl.endpoint.identification.algorithm": None if place.check_hostname else "none",
        "sasl.mechanism": place.mechanism,
        "sasl.username": place.username,
        "sasl.password": place.password,
    }
    token = place.token
    if token is not None:
        token.read()
        given["oauth_cb"] = lambda _: (token.read(), time.time() + _TOKEN_LASTS_S)
    texts = {name: value.read() if isinstance(value, Secret) else value for name, value in optional.items()}
    return {**given, **{name: str(value) for name, value in texts.items() if value is not None}}


def reason(error: KafkaError, topic: str) -> str:
    """Why something could not be done, in a sentence without a secret."""
    code = error.code()
    said = excerpt(error.str())
    if code in _REFUSED:
        return f"the brokers refuse us, or we them: {said}"
    if code in _UNREACHABLE:
        return f"no broker can be reached ({said})"
    match code:
        case KafkaError.UNKNOWN_TOPIC_OR_PART | KafkaError._UNKNOWN_TOPIC:
            return f"there is no topic {topic}: create it with cleanup.policy=compact, or give create: true"
        case KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return f"the login may not write to the topic {topic}: it needs DESCRIBE and WRITE on it"
        case KafkaError.MSG_SIZE_TOO_LARGE:
            return f"it is larger than the topic {topic} takes, or than 1 MB"
        case _:
            return said


def refused(error: KafkaError) -> bool:
    """The login or a certificate is not accepted: a client reads them once, so the next try needs a new one."""
    return error.code() in _REFUSED


class _Quiet:
    """librdkafka's own log, which would go to stderr: it tells each broker that is away, again and again."""

    def log(self, level: int, text: str, *values: object) -> None:
        """As a logger's, one level for all: what matters comes as an error as well."""
        del level
        _LOG.debug("%s", redact(text % values))
