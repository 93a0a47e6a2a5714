"""The relay's topic as its brokers start: which errors a job waits out, and which end it."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from connectors.relay import topic_client
from connectors.relay.relay_message import TopicError, UnansweredTopicError
from connectors.settings.sections import TopicSection

TOPIC = TopicSection(bootstrap=("b1.test:9092",), topic="kraftwatch")


class FailingConsumer:
    """Has metadata of the topic, and fails with one error when it is asked for the ends of a partition."""

    def __init__(self, code: int) -> None:
        self._error = KafkaError(code)

    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions={0: None})})

    def get_watermark_offsets(self, *_: object, **__: object) -> Any:
        raise KafkaException(self._error)

    def close(self) -> None:
        pass


def failure_of(monkeypatch: pytest.MonkeyPatch, code: int) -> TopicError:
    monkeypatch.setattr(topic_client, "open_consumer", lambda *_: FailingConsumer(code))
    with pytest.raises(TopicError) as raised, topic_client.reading(TOPIC):
        pass
    return raised.value


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
    ],
)
def test_a_partition_that_is_not_available_is_waited_for(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    failure = failure_of(monkeypatch, code)

    assert isinstance(failure, UnansweredTopicError)
    assert str(failure).startswith("a partition of the topic kraftwatch is not available (")


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._AUTHENTICATION])
def test_a_missing_permission_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    assert not isinstance(failure_of(monkeypatch, code), UnansweredTopicError)
