"""The survey of a relay's topic before a job reads it: which clusters it has, their ids, and where each log begins.

It reads the newest messages of each partition. A relay writes several rows a second for each cluster, so that they have
every cluster whose relay runs.
"""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message, TopicPartition

from connectors.errors import UndecodableError
from connectors.relay.relay_message import Baseline, parse_message
from connectors.relay.surveyed_topic import SurveyedCluster, TopicError, TopicSurvey
from connectors.relay.topic_producer import reason
from connectors.sinks import librdkafka
from connectors.sinks.sink_config import KafkaTopic

_NEWEST_MESSAGES: Final = 5_000
"""How many messages of a partition are read: seconds of a thousand clusters."""
_MARGIN_MS: Final = 60_000
"""The messages of several clusters are not exactly in the order of their times."""
_POLL_S: Final = 0.2


def survey_topic(topic: KafkaTopic, clusters: Collection[str], *, within_s: float) -> TopicSurvey:
    """Surveys these clusters; one that has no message among the newest ones within the time is left out.

    Raises:
        UsageError: a secret cannot be read.
        TopicError: the topic cannot be read.
    """
    until = time.monotonic() + within_s
    with _consumer(topic) as consumer:
        try:
            partitions = _partitions(consumer, topic, until)
            _seek(consumer, topic, partitions, until)
            newest = _newest(consumer, set(clusters), until)
            surveyed = {name: _surveyed(consumer, topic, *one, until) for name, one in newest.items()}
        except KafkaException as problem:
            raise TopicError(reason(problem.args[0], topic)) from None
    return TopicSurvey(partitions=partitions, clusters=surveyed)


@contextmanager
def _consumer(topic: KafkaTopic) -> Iterator[Any]:
    settings = librdkafka.settings(topic)
    try:
        # A consumer needs a group id; this one never joins a group and commits nothing.
        consumer = Consumer({**settings, "group.id": "kraftwatch-survey", "enable.auto.commit": False})
    except KafkaException as problem:
        raise TopicError(reason(problem.args[0], topic)) from None
    try:
        yield consumer
    finally:
        consumer.close()


def _partitions(consumer: Any, topic: KafkaTopic, until: float) -> int:
    metadata = consumer.list_topics(topic.topic, timeout=_left_s(until)).topics[topic.topic]
    if metadata.error is not None:
        raise TopicError(reason(metadata.error, topic))
    return len(metadata.partitions)


def _seek(consumer: Any, topic: KafkaTopic, partitions: int, until: float) -> None:
    assigned = []
    for partition in range(partitions):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic.topic, partition), timeout=_left_s(until))
        assigned.append(TopicPartition(topic.topic, partition, max(low, high - _NEWEST_MESSAGES)))
    consumer.assign(assigned)


def _newest(consumer: Any, wanted: set[str], until: float) -> Mapping[str, tuple[int, str, Baseline]]:
    """Returns partition, cluster id and baseline of the newest message of each wanted cluster."""
    found: dict[str, tuple[int, str, Baseline]] = {}
    while time.monotonic() < until:
        message = consumer.poll(_POLL_S)
        if message is None:
            # Every message that was there has been read.
            if wanted <= found.keys():
                break
            continue
        if message.error() is not None:
            if message.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                # librdkafka looks for the coordinator of a group that this consumer does not use.
                continue
            raise KafkaException(message.error())
        try:
            read = parse_message(message.key(), message.value(), message.headers())
        except UndecodableError:
            continue
        cluster = read.observation.cluster
        known = found.get(cluster)
        if cluster in wanted and (known is None or read.baseline.sequence >= known[2].sequence):
            found[cluster] = message.partition(), read.cluster_id, read.baseline
    return found


def _surveyed(
    consumer: Any, topic: KafkaTopic, partition: int, cluster_id: str, baseline: Baseline, until: float
) -> SurveyedCluster:
    wanted = TopicPartition(topic.topic, partition, max(0, baseline.at_ms - _MARGIN_MS))
    (at,) = consumer.offsets_for_times([wanted], timeout=_left_s(until))
    low, high = consumer.get_watermark_offsets(TopicPartition(topic.topic, partition), timeout=_left_s(until))
    begins_at = at.offset if at.offset >= 0 else high
    return SurveyedCluster(
        partition=partition,
        cluster_id=cluster_id,
        baseline=baseline,
        begins_at=begins_at,
        whole=low == 0 or begins_at > low or _is_older(_first(consumer, topic, partition, low, until), baseline),
    )


def _first(consumer: Any, topic: KafkaTopic, partition: int, low: int, until: float) -> Message | None:
    """Returns the oldest message that the partition still has."""
    consumer.assign([TopicPartition(topic.topic, partition, low)])
    while time.monotonic() < until:
        message = consumer.poll(_POLL_S)
        if message is not None and message.error() is None:
            return message
    return None


def _is_older(message: Message | None, baseline: Baseline) -> bool:
    if message is None:
        return False
    kind, at_ms = message.timestamp()
    return bool(kind != TIMESTAMP_NOT_AVAILABLE and at_ms <= baseline.at_ms)


def _left_s(until: float) -> float:
    return max(1.0, until - time.monotonic())
