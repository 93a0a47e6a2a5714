"""librdkafka for the topic sink and the relay: settings, a producer that creates its topic, and reasons of errors."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from connectors.settings.secret import Secret, excerpt, redact
from connectors.settings.sections import TopicSection

_LOG = logging.getLogger(__name__)
_TOKEN_LASTS_S = 300.0
"""After this time the token's file is read again, if a connection is still open."""
_METADATA_TIMEOUT_S = 1.0
_POLL_S = 0.1
_UNREACHABLE = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
}
_NOT_READY = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.KAFKA_STORAGE_ERROR,
}
"""Retriable errors of Kafka's protocol, and librdkafka's own for a partition that its metadata does not have."""
_AUTHENTICATION = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED}


def settings(config: TopicSection) -> dict[str, Any]:
    """Returns librdkafka's settings for the brokers. Secrets are read at each call.

    Raises UsageError if a secret cannot be read.
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
        "ssl.ca.location": config.ssl_cafile,
        "ssl.certificate.location": config.ssl_certfile,
        "ssl.key.location": config.ssl_keyfile,
        "ssl.crl.location": config.ssl_crlfile,
        "ssl.key.password": config.ssl_password,
        "ssl.endpoint.identification.algorithm": None if config.ssl_check_hostname else "none",
        "sasl.mechanism": config.sasl_mechanism,
        "sasl.username": config.sasl_plain_username,
        "sasl.password": config.sasl_plain_password,
    }
    token = config.login_secrets.get("sasl_oauth_token_file")
    if token is not None:
        token.read()
        required["oauth_cb"] = lambda _: (token.read(), time.time() + _TOKEN_LASTS_S)
    texts = {name: value.read() if isinstance(value, Secret) else value for name, value in optional.items()}
    return {**required, **{name: str(value) for name, value in texts.items() if value is not None}}


def open_producer(
    config: TopicSection,
    further: Mapping[str, Any],
    *,
    new_topic: NewTopic,
    until: float,
    given_up: Callable[[], bool] = lambda: False,
) -> Any:
    """Returns a producer that writes each message once and in order, as long as it lives; creates the topic if needed.

    `until`: how long to wait for the topic, by the monotonic clock; `given_up`: whether an error was reported after
    which waiting is useless.

    Raises UsageError if a secret cannot be read, KafkaException if no broker answers, the login is refused, or the
    topic does not exist.
    """
    base = settings(config)
    producer = Producer(
        {
            **base,
            "enable.idempotence": True,
            "acks": "all",
            # One request at a time: a broker that does not lead the partition yet may reject the first message,
            # accept the second as the producer's first, and then answer "duplicate" to the first, which is lost.
            "max.in.flight.requests.per.connection": 1,
            # No timeout: if a message failed and a later one was accepted, the older one would be the last.
            "message.timeout.ms": 0,
            **further,
        }
    )
    error = _topic_error(producer, config.topic, until, given_up)
    if config.create and _missing(error):
        _create_topic(base, new_topic, until)
        # The controller has the topic immediately, a broker a moment later.
        while _missing(error := _topic_error(producer, config.topic, until, given_up)) and time.monotonic() < until:
            producer.poll(_POLL_S)
    if error is not None:
        raise KafkaException(error)
    return producer


def _topic_error(producer: Any, topic: str, until: float, given_up: Callable[[], bool]) -> KafkaError | None:
    """Returns the topic's error in the metadata: a producer waits half a minute for a missing topic."""
    while True:
        try:
            metadata = producer.list_topics(topic, timeout=_METADATA_TIMEOUT_S)
        except KafkaException:
            # Only poll reports why there was no response.
            producer.poll(0)
            if given_up() or time.monotonic() >= until:
                raise
        else:
            error: KafkaError | None = metadata.topics[topic].error
            return error


def _create_topic(base: Mapping[str, Any], new_topic: NewTopic, until: float) -> None:
    admin = AdminClient(base)  # a variable, because its requests end when the client is collected
    left_s = max(0.1, until - time.monotonic())
    try:
        admin.create_topics([new_topic], operation_timeout=left_s)[new_topic.topic].result(left_s)
    except KafkaException as problem:
        if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return  # another client created it first
    _LOG.info("created the topic %s: %s", new_topic.topic, new_topic.config)


def _missing(error: KafkaError | None) -> bool:
    return error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


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


def unreachable(error: KafkaError) -> bool:
    """Returns whether no broker answered."""
    return error.code() in _UNREACHABLE


def not_ready(error: KafkaError) -> bool:
    """Returns whether a topic or partition is missing or its leader does not serve it: that may pass by itself."""
    return error.code() in _NOT_READY


def authentication_failed(error: KafkaError) -> bool:
    """Returns whether the login or a certificate was rejected: a client reads them once, so a new one is needed."""
    return error.code() in _AUTHENTICATION


class _DebugLog:
    """Receives librdkafka's own log, which would go to stderr: it repeats each unreachable broker."""

    def log(self, level: int, text: str, *values: object) -> None:
        """Logs everything at DEBUG: what matters is also reported as an error."""
        del level
        _LOG.debug("%s", redact(text % values))
