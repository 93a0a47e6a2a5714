"""The clients of the relay's topic: its producers, which create the topic where needed, and its consumers."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, Final

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import NewTopic

from connectors.kafka import librdkafka
from connectors.process.wall_clock import wall_ms
from connectors.relay.relay_message import (
    Baseline,
    RelayMessage,
    TopicError,
    TopicMessage,
    UnansweredTopicError,
    check_row,
    parse_message,
)
from connectors.settings.sections import TopicSection

MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
"""The largest compressed batch that a created topic accepts; a piece of a snapshot has 8 MiB before compression."""
TIMESTAMP_TYPE, LOG_APPEND_TIME = "message.timestamp.type", "LogAppendTime"
ANSWER_S: Final = 30.0
TRANSACTION_S: Final = 10.0
"""After this time the brokers abort a transaction whose relay ended within it; until then, readers wait for its end."""
_AT_ONCE: Final = 2_000
_POLL_S: Final = 0.1
"""How long messages are collected, although all partitions may have ended meanwhile."""
_SAY_EVERY_S: Final = 2.0
_TO_THE_END: Final[Mapping[str, Any]] = {
    "enable.partition.eof": True,
    # There is nothing to wait for at the end, and a broker answers no other request of the connection meanwhile.
    "fetch.wait.max.ms": 10,
}
"""The settings of a consumer that reads to the end of each partition."""
_MARGIN_MS: Final = 60_000
"""The messages of several clusters are not exactly in the order of their times."""
_NO_TOPIC: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
_PARTITIONS = 4
_RETENTION_MS = 7 * 24 * 3_600_000


def check_settings(topic: TopicSection) -> None:
    """Checks the settings without a connection.

    Raises UsageError if a secret cannot be read, TopicError if librdkafka rejects a setting.
    """
    settings = librdkafka.settings(topic)
    try:
        Producer(settings)
    except KafkaException as problem:
        raise TopicError(reason(problem.args[0], topic)) from None


def transactional_ids(topic: str) -> str:
    """Returns the prefix of the transactional ids of a topic's relays. A `/` is in no name of a topic or cluster."""
    return f"kraftwatch-{topic}/"


def open_producer(
    topic: TopicSection,
    *,
    on_error: Callable[[KafkaError], None],
    within_s: float,
    transactions_of: str | None = None,
) -> Any:
    """Returns a producer that writes each message once and in order, as long as it lives.

    `on_error` receives the errors that librdkafka reports; `within_s`: how long to wait for the topic's metadata;
    `transactions_of`: the cluster whose rows it writes in transactions.

    Raises UsageError if a secret cannot be read, TopicError if no broker answers, the login is refused, or the topic
    does not exist.
    """
    further = {
        "compression.type": "zstd",
        # As in Kafka's Java client, so that other producers of the same keys choose the same partition.
        "partitioner": "murmur2",
        "linger.ms": 5,
        # librdkafka compares the size before compression; the broker compares the compressed one.
        "message.max.bytes": 256 * 1024 * 1024,
        "queue.buffering.max.kbytes": 64 * 1024,
        "error_cb": on_error,
    }
    if transactions_of is not None:
        further |= {
            "transactional.id": transactional_ids(topic.topic) + transactions_of,
            "transaction.timeout.ms": round(1_000 * TRANSACTION_S),
            # The first message waits for the coordinator: the others follow in the meantime.
            "linger.ms": 0,
        }
    config = {
        "max.message.bytes": str(MESSAGE_BYTES_MAX),
        "retention.ms": str(_RETENTION_MS),
        # A job compares the times of rows with it: a producer could give its messages any time.
        TIMESTAMP_TYPE: LOG_APPEND_TIME,
    }
    # -1: the cluster's default replication factor.
    new_topic = NewTopic(topic.topic, num_partitions=_PARTITIONS, replication_factor=-1, config=config)
    try:
        return librdkafka.open_producer(topic, further, new_topic=new_topic, until=time.monotonic() + within_s)
    except KafkaException as problem:
        raise TopicError(reason(problem.args[0], topic)) from None


def open_consumer(topic: TopicSection, further: Mapping[str, Any] | None = None) -> Any:
    """Returns a consumer of committed messages that joins no group and commits nothing.

    Raises UsageError if a secret cannot be read, TopicError if librdkafka rejects a setting.
    """
    try:
        return Consumer(
            {
                **librdkafka.settings(topic),
                # A consumer needs a group id.
                "group.id": "kraftwatch-relay",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                # Those of an aborted transaction are of a relay that was replaced or has failed.
                "isolation.level": "read_committed",
                **(further or {}),
            }
        )
    except KafkaException as problem:
        raise TopicError(reason(problem.args[0], topic)) from None


def partitions(consumer: Any, topic: TopicSection, *, timeout_s: float) -> Sequence[int]:
    """Returns the numbers of the topic's partitions, in order.

    Raises TopicError if the topic does not exist, or the login may not read it, KafkaException if no broker answers.
    """
    metadata = consumer.list_topics(topic.topic, timeout=timeout_s).topics[topic.topic]
    if metadata.error is not None:
        raise _topic_error(metadata.error, topic)
    return sorted(metadata.partitions)


def ends(consumer: Any, topic: TopicSection, numbers: Iterable[int], *, timeout_s: float) -> Mapping[int, int]:
    """Returns the ends of partitions as their leaders report them now, for what the consumer reads.

    A partition whose leader does not answer in time is missing.
    """
    found: dict[int, int] = {}
    until = time.monotonic() + timeout_s
    for number in numbers:
        with suppress(KafkaException):
            left_s = max(0.1, until - time.monotonic())
            place = TopicPartition(topic.topic, number)
            found[number] = int(consumer.get_watermark_offsets(place, timeout=left_s, cached=False)[1])
    return found


class Progress:
    """Prints how far the reading of a topic is, every two seconds."""

    def __init__(self, topic: str, say: Callable[[str], None]) -> None:
        self._topic, self._print = topic, say
        self._said_at = time.monotonic()

    def __call__(self, what: str) -> None:
        """Prints `what`, if it is time."""
        if time.monotonic() - self._said_at > _SAY_EVERY_S:
            self._said_at = time.monotonic()
            self._print(f"reading the topic {self._topic}: {what}")


class TopicReader:
    """Reads a topic between offsets. Raises KafkaException or TopicError if the brokers do not answer."""

    def __init__(self, topic: TopicSection, consumer: Any, answer_s: float) -> None:
        """`consumer` reports the ends of partitions; `answer_s`: how long brokers may take for one answer."""
        self.topic = topic
        self._consumer, self._answer_s = consumer, answer_s
        self.bounds: dict[int, tuple[int, int]] = {}
        """The first offset and the end of each partition."""
        self._oldest: dict[int, int | None] = {}
        """The time of the first message of partitions that were asked for it; None if there is no such time."""
        self.find_bounds()

    def find_bounds(self) -> None:
        """Asks for the bounds of the partitions now."""
        for number in partitions(self._consumer, self.topic, timeout_s=self._answer_s):
            place = TopicPartition(self.topic.topic, number)
            low, high = self._consumer.get_watermark_offsets(place, timeout=self._answer_s, cached=False)
            self.bounds[number] = (int(low), int(high))

    def offset_at(self, partition: int, at_ms: int) -> int:
        """Returns the offset from which on the messages were appended at this time or later; the end if none was."""
        wanted = TopicPartition(self.topic.topic, partition, max(0, at_ms))
        (at,) = self._consumer.offsets_for_times([wanted], timeout=self._answer_s)
        if at.error is not None:
            raise KafkaException(at.error)
        return int(at.offset) if at.offset >= 0 else self.bounds[partition][1]

    def messages(self, begins: Mapping[int, int], ends: Mapping[int, int] | None = None) -> Iterator[Message]:
        """Yields the messages of partitions between these offsets; without ends, to the ends of the partitions."""
        known = {number: high for number, (_, high) in self.bounds.items()} if ends is None else ends
        left = {number: known[number] for number, begin in begins.items() if begin < known[number]}
        self._consumer.assign([TopicPartition(self.topic.topic, number, begins[number]) for number in left])
        try:
            while left:
                yield from self._consumed(left)
        finally:
            # A broker answers one request of a connection after the other: the next one would wait for the end of a
            # fetch, half a second.
            self._consumer.unassign()

    def _consumed(self, left: dict[int, int]) -> Iterator[Message]:
        """Yields the next messages before the ends in `left`; removes the partitions that have ended from it."""
        until = time.monotonic() + self._answer_s
        while not (messages := self._consumer.consume(_AT_ONCE, _POLL_S)):
            if time.monotonic() > until:
                raise UnansweredTopicError(
                    f"the brokers of the topic {self.topic.topic} have not answered for {self._answer_s:g} s"
                )
        for message in messages:
            partition, error = message.partition(), message.error()
            end = left.get(partition)
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                left.pop(partition, None)
            elif error is not None:
                # librdkafka looks for the coordinator of a group that this consumer does not use.
                if error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                    raise KafkaException(error)
            elif end is not None:
                if message.offset() < end:
                    yield message
                if message.offset() + 1 >= end:
                    left.pop(partition, None)

    def place_of_baseline(self, partition: int, baseline: Baseline) -> tuple[int, bool]:
        """Returns the offset from which on all rows of a baseline follow, and whether they are all there."""
        begins_at, (low, _) = self.offset_at(partition, baseline.at_ms - _MARGIN_MS), self.bounds[partition]
        if low == 0 or begins_at > low:
            return begins_at, True
        if partition not in self._oldest:
            self._oldest[partition] = self._oldest_ms(partition, low)
        oldest_ms = self._oldest[partition]
        return begins_at, oldest_ms is not None and oldest_ms <= baseline.at_ms

    def _oldest_ms(self, partition: int, low: int) -> int | None:
        oldest = next(self.messages({partition: low}), None)
        kind, at_ms = (TIMESTAMP_NOT_AVAILABLE, 0) if oldest is None else oldest.timestamp()
        return None if kind == TIMESTAMP_NOT_AVAILABLE else int(at_ms)


@contextmanager
def reading(topic: TopicSection, answer_s: float = ANSWER_S) -> Iterator[TopicReader]:
    """Connects a reader. Raises UsageError if a secret cannot be read, TopicError if the topic cannot be read."""
    reported: list[KafkaError] = []
    with closing(open_consumer(topic, {**_TO_THE_END, "error_cb": reported.append})) as consumer:
        try:
            yield TopicReader(topic, consumer, answer_s)
        except KafkaException as problem:
            # Of a rejected login, the call itself says only that nothing answers.
            rejected = (one for one in reported if librdkafka.authentication_failed(one))
            raise _topic_error(next(rejected, problem.args[0]), topic) from None


def _topic_error(error: KafkaError, topic: TopicSection) -> TopicError:
    may_pass = librdkafka.unreachable(error) or librdkafka.not_ready(error)
    return (UnansweredTopicError if may_pass else TopicError)(reason(error, topic))


def accepted(message: Message, cluster_id: str | None) -> RelayMessage:
    """Returns a message that a relay of the cluster may have written; `cluster_id`: None if it is not known yet.

    Raises UndecodableError, with the reason, if its row must not be used.
    """
    read = parse_message(message.key(), message.value(), message.headers())
    check_row(read, cluster_id=cluster_id, appended_at_ms=appended_at_ms(message))
    return read


def topic_message(message: Message) -> TopicMessage:
    """Returns a message without Kafka's library."""
    return TopicMessage(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        headers=message.headers(),
        appended_at_ms=appended_at_ms(message),
    )


def appended_at_ms(message: Message) -> int:
    """Returns when the broker appended the message.

    A producer can give its message any time: such a time counts only as far as it has been reached.
    """
    kind, at_ms = message.timestamp()
    return int(at_ms if kind == TIMESTAMP_LOG_APPEND_TIME else min(at_ms, wall_ms()))


def reason(error: KafkaError, topic: TopicSection) -> str:
    """Returns why something failed, in one sentence without a secret."""
    match error.code():
        case code if code in _NO_TOPIC:
            return f"the topic {topic.topic} does not exist: create it, or set create: true in relay"
        case _ if librdkafka.not_ready(error):
            return f"a partition of the topic {topic.topic} is not available ({librdkafka.reason(error, topic.topic)})"
        case KafkaError.MSG_SIZE_TOO_LARGE:
            return (
                f"a row is larger than the topic {topic.topic} accepts: set max.message.bytes of the topic to "
                f"{MESSAGE_BYTES_MAX}"
            )
        case KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return (
                "missing permission on transactional ids: the login needs WRITE and DESCRIBE on those that begin with "
                f"{transactional_ids(topic.topic)}"
            )
        case KafkaError.COORDINATOR_NOT_AVAILABLE:
            return (
                "the brokers have no transaction coordinator: if there are fewer than three brokers, set "
                "transaction.state.log.replication.factor=1 and transaction.state.log.min.isr=1 of each"
            )
        case KafkaError.INVALID_TIMESTAMP:
            return (
                "the brokers refuse the time of a row: correct the clock of the relay's host, or message.timestamp.* "
                f"of the topic {topic.topic}"
            )
        case _:
            return librdkafka.reason(error, topic.topic)
