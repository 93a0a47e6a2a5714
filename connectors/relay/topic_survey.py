"""The survey of a relay's topic before a job reads it: which clusters it has, their ids, and where each log begins.

It reads the newest messages of each partition. A relay writes several rows a second for each cluster, so that they have
every cluster whose relay runs.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from connectors.errors import UndecodableError
from connectors.relay.relay_message import Baseline, SurveyedCluster, TopicError, TopicSurvey, check_row, parse_message
from connectors.relay.topic_client import appended_at_ms, open_consumer, partitions, reason
from connectors.settings import TopicSection

_NEWEST_MESSAGES: Final = 5_000
"""How many messages of a partition are read: seconds of a thousand clusters."""
_MARGIN_MS: Final = 60_000
"""The messages of several clusters are not exactly in the order of their times."""
_POLL_S: Final = 0.2


@dataclass(slots=True, kw_only=True)
class _Newest:
    """What the newest messages have."""

    baselines: dict[str, Counter[tuple[int, str, Baseline]]] = field(default_factory=lambda: defaultdict(Counter))
    """By cluster: how many messages have this partition, cluster id and baseline."""
    append_time: bool | None = None
    refused: dict[str, str] = field(default_factory=dict)


def survey_topic(topic: TopicSection, clusters: Mapping[str, str | None], *, within_s: float) -> TopicSurvey:
    """Surveys clusters; one that has no message among the newest ones within the time is left out.

    A few messages that another program writes do not change the result: the baseline of most rows counts.

    `clusters`: their names, and their ids if they are known: rows of another id do not count.

    Raises UsageError if a secret cannot be read, TopicError if the topic cannot be read.
    """
    until = time.monotonic() + within_s
    with closing(open_consumer(topic)) as consumer:
        try:
            numbers = partitions(consumer, topic, timeout_s=_left_s(until))
            from_start, left = _seek(consumer, topic, numbers, until)
            newest = _newest(consumer, clusters, left, until)
            surveyed = {name: _surveyed(consumer, topic, found, until) for name, found in newest.baselines.items()}
        except KafkaException as problem:
            raise TopicError(reason(problem.args[0], topic)) from None
    return TopicSurvey(
        partitions=len(numbers),
        clusters=surveyed,
        from_start=from_start,
        append_time=newest.append_time,
        refused=newest.refused,
    )


def _seek(consumer: Any, topic: TopicSection, numbers: Sequence[int], until: float) -> tuple[bool, int]:
    """Returns whether each partition has its first message, and how many messages there are from the position on."""
    assigned, from_start, left = [], True, 0
    for partition in numbers:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic.topic, partition), timeout=_left_s(until))
        begin = max(low, high - _NEWEST_MESSAGES)
        assigned.append(TopicPartition(topic.topic, partition, begin))
        from_start, left = from_start and low == 0, left + high - begin
    consumer.assign(assigned)
    return from_start, left


def _newest(consumer: Any, wanted: Mapping[str, str | None], left: int, until: float) -> _Newest:
    """Returns what the newest messages have of the wanted clusters."""
    found = _Newest()
    while time.monotonic() < until:
        message = consumer.poll(_POLL_S)
        if message is None or left <= 0:
            # Every message that was there has been read.
            if wanted.keys() <= found.baselines.keys():
                break
            if message is None:
                continue
        if message.error() is not None:
            if message.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                # librdkafka looks for the coordinator of a group that this consumer does not use.
                continue
            raise KafkaException(message.error())
        left -= 1
        _count(found, message, wanted)
    return found


def _count(found: _Newest, message: Message, wanted: Mapping[str, str | None]) -> None:
    found.append_time = message.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME
    name = (message.key() or b"").decode(errors="replace")
    if name not in wanted:
        return
    try:
        read = parse_message(message.key(), message.value(), message.headers())
        check_row(read, cluster_id=wanted[name], appended_at_ms=appended_at_ms(message))
    except UndecodableError as problem:
        found.refused[name] = str(problem)
        return
    found.baselines[name][message.partition(), read.cluster_id, read.baseline] += 1


def _surveyed(
    consumer: Any, topic: TopicSection, found: Counter[tuple[int, str, Baseline]], until: float
) -> SurveyedCluster:
    """Returns the most frequent baseline that is still whole; the most frequent one if none is."""
    newest = max(baseline.sequence for _, _, baseline in found)
    first: SurveyedCluster | None = None
    for (partition, cluster_id, baseline), _ in found.most_common():
        begins_at, whole = place_of_baseline(consumer, TopicPartition(topic.topic, partition), baseline, until)
        one = SurveyedCluster(
            partition=partition,
            cluster_id=cluster_id,
            baseline=baseline,
            begins_at=begins_at,
            whole=whole,
            newest_baseline=newest,
        )
        if whole:
            return one
        first = first or one
    assert first is not None, "a cluster is found with at least one message"
    return first


def place_of_baseline(consumer: Any, partition: TopicPartition, baseline: Baseline, until: float) -> tuple[int, bool]:
    """Returns the offset from which on all rows of a baseline follow, and whether they are all there."""
    wanted = TopicPartition(partition.topic, partition.partition, max(0, baseline.at_ms - _MARGIN_MS))
    (at,) = consumer.offsets_for_times([wanted], timeout=_left_s(until))
    low, high = consumer.get_watermark_offsets(partition, timeout=_left_s(until))
    begins_at = at.offset if at.offset >= 0 else high
    if low == 0 or begins_at > low:
        return begins_at, True
    oldest = _first(consumer, partition, low, until)
    kind, at_ms = (TIMESTAMP_NOT_AVAILABLE, 0) if oldest is None else oldest.timestamp()
    return begins_at, kind != TIMESTAMP_NOT_AVAILABLE and at_ms <= baseline.at_ms


def _first(consumer: Any, partition: TopicPartition, low: int, until: float) -> Message | None:
    """Returns the oldest message that the partition still has."""
    consumer.assign([TopicPartition(partition.topic, partition.partition, low)])
    while time.monotonic() < until:
        message = consumer.poll(_POLL_S)
        if message is not None and message.error() is None:
            return message
    return None


def _left_s(until: float) -> float:
    return max(1.0, until - time.monotonic())
