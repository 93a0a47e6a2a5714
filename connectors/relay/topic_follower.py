"""TopicFollower: follows the topics of relays from given offsets on, however long their brokers do not answer.

Nothing that brokers do ends it but rows that are lost. How far it is, and whether the brokers answer, is read from
librdkafka's statistics, which cost no request: a request would wait for the fetch that the broker holds back.
"""

import json
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from connectors.errors import UsageError
from connectors.kafka import librdkafka
from connectors.relay.relay_message import RowsLostError, TopicError, TopicMessage
from connectors.relay.topic_client import open_consumer, reason, topic_message
from connectors.settings.sections import TopicSection

Place: TypeAlias = tuple[str, int]
"""A topic, and the number of a partition."""
_SETTINGS: Final[Mapping[str, Any]] = {
    "auto.offset.reset": "error",
    # The end of a transaction is no message.
    "enable.partition.eof": True,
    # What is read ahead while a batch is evaluated.
    "queued.max.messages.kbytes": 16 * 1024,
    "fetch.queue.backoff.ms": 20,
    # A partition that is added is noticed within this time.
    "topic.metadata.refresh.interval.ms": 10_000,
    "statistics.interval.ms": 1_000,
}
_SILENT_S: Final = 3.0
"""A broker answers a fetch after half a second, with or without rows: after this time it does not answer."""
_REPORTED_S: Final = 10.0
"""Brokers that do not answer are reported after this time: a broker that is restarted is back by then."""
_LONGEST_PAUSE_S: Final = 10.0
_MISSING_S: Final = 30.0
"""A topic is deleted if no broker has had it for this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartitionState:
    """What librdkafka says of a partition."""

    answers: bool
    """Whether its leader answers."""
    end: int
    """After the newest message that readers may have; negative if it is not known."""


class TopicFollower:
    """Follows topics. Its methods are called by one thread, which calls `poll` again and again."""

    def __init__(
        self, connection: TopicSection, topics: Collection[str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Connects to nothing yet; the topic of the connection is not read unless it is one of `topics`."""
        self._connection, self._topics, self._clock = connection, topics, clock
        self._consumer: Any = None
        self._retry_at = self._pause_s = 0.0
        self.positions: dict[Place, int] = {}
        """The next offset of each partition; negative for one that was added and is not read yet."""
        self.read_to_end_at: dict[str, float] = {}
        """When each topic was last read to its end, by the clock; a topic with a backlog is as old as that is."""
        self._refused: dict[Place, str] = {}
        """Why partitions cannot be read."""
        self._missing_since: dict[Place, float] = {}
        """Since when no broker has these partitions."""
        self._reported: str | None = None
        """What librdkafka reported last of the connections."""
        self._silent_s = 0.0
        """For how long not all brokers of the partitions have answered."""
        self._answered_at = 0.0
        """When they last did."""
        self._broken: str | None = None
        """Why the newest connection was given up; None since brokers answered again."""
        self._is_broken = False
        """Whether the connection must be given up."""

    @property
    def failing(self) -> str | None:
        """Why the topics cannot be read now, as a sentence without a secret; None while they are read."""
        if self._broken is not None or self._refused:
            return self._broken or next(iter(self._refused.values()))
        if self._silent_s < _REPORTED_S:
            return None
        return self._reported or f"the brokers have not answered for {_REPORTED_S:g} s"

    @property
    def at_end(self) -> bool:
        """Whether everything was read that librdkafka knows to be there."""
        return self._consumer is None or all(
            0 <= self._known_end(place) <= position for place, position in self.positions.items()
        )

    def follow(self, positions: Mapping[Place, int]) -> None:
        """Continues at these offsets; a partition that is not among them is read from its start."""
        if {place: offset for place, offset in self.positions.items() if offset >= 0} != positions:
            self.positions = dict(positions)
            if self._consumer is not None:
                self._assign()

    def poll(self, timeout_s: float) -> TopicMessage | None:
        """Returns the next message; None if there is none for this time.

        Raises RowsLostError if the next rows of a partition are deleted, or it was created again.
        """
        if self._consumer is None and not self._opened():
            time.sleep(max(0.0, min(timeout_s, self._retry_at - self._clock())))
            return None
        message = self._consumer.poll(timeout_s)
        if self._is_broken:
            self.close()
        if self._is_broken or message is None:
            return None
        place, error = (message.topic(), message.partition()), message.error()
        if error is not None:
            self._note_error(error, place, message.offset())
        elif place in self.positions:
            self._refused.pop(place, None)
            self.positions[place] = message.offset() + 1
            return topic_message(message)
        return None

    def close(self) -> None:
        """Closes the connections; the positions stay."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _opened(self) -> bool:
        if self._clock() < self._retry_at:
            return False
        try:
            # The secrets are read again.
            further = {**_SETTINGS, "error_cb": self._on_error, "stats_cb": self._on_statistics}
            self._consumer = open_consumer(self._connection, further)
        except (UsageError, TopicError) as problem:
            self._break(str(problem))
            return False
        self._is_broken, self._silent_s, self._answered_at = False, 0.0, self._clock()
        self._assign()
        return True

    def _assign(self) -> None:
        self._consumer.assign([TopicPartition(*place, offset) for place, offset in self.positions.items()])

    def _break(self, why: str) -> None:
        """Makes `poll` close the connection and open another one: librdkafka would not recover."""
        self._broken, self._is_broken = why, True
        self._pause_s = min(_LONGEST_PAUSE_S, max(1.0, 2 * self._pause_s))
        self._retry_at = self._clock() + self._pause_s

    def _known_end(self, place: Place) -> int:
        try:
            _, end = self._consumer.get_watermark_offsets(TopicPartition(*place), cached=True)
        except KafkaException:
            return -1
        return int(end)

    def _note_error(self, error: KafkaError, place: Place, offset: int) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            self._refused.pop(place, None)
            self.positions[place] = max(self.positions[place], offset)
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise RowsLostError(place[0], f"partition {place[1]} has no row at offset {self.positions[place]}")
        elif error.fatal() or librdkafka.authentication_failed(error):
            self._break(self._why(error, place[0]))
            self.close()
        elif place in self.positions:
            self._refused[place] = self._why(error, place[0])
        elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            # librdkafka looks for the coordinator of a group that this consumer does not use.
            self._reported = self._why(error)

    def _on_error(self, error: KafkaError) -> None:
        """Notes an error of a connection. Called within `poll`."""
        why = self._why(error)
        if error.fatal() or librdkafka.authentication_failed(error):
            # A login needs the secrets to be read again.
            self._break(why)
        else:
            self._reported = why

    def _why(self, error: KafkaError, topic: str | None = None) -> str:
        name = topic or ", ".join(sorted(self._topics))
        return reason(error, self._connection.model_copy(update={"topic": name}))

    def _on_statistics(self, text: str) -> None:
        """Notes how far the topics are read, and follows new partitions. Called within `poll`."""
        statistics: dict[str, Any] = json.loads(text)
        # They may have waited for `poll` while a batch was evaluated.
        at = self._clock() - max(0.0, time.time() - statistics["time"])
        states = {
            (topic, number): state for topic in self._topics for number, state in _partitions(statistics, topic).items()
        }
        added = dict.fromkeys(states.keys() - self.positions.keys(), OFFSET_BEGINNING)
        if added:
            self.positions |= added
            self._consumer.incremental_assign([TopicPartition(*place, offset) for place, offset in added.items()])
        answering = {place for place, state in states.items() if state.answers}
        if self.positions.keys() <= answering:
            self._answered_at, self._broken, self._reported, self._pause_s = at, None, None, 0.0
        self._silent_s = at - self._answered_at
        # Brokers that do not answer say nothing of it.
        self._note_missing(self.positions.keys() - states.keys() if _answering(statistics) else (), at)
        for topic in self._topics:
            places = [place for place in self.positions if place[0] == topic]
            if all(place in states and self._has_read(place, states[place]) for place in places):
                self.read_to_end_at[topic] = at

    def _note_missing(self, missing: Collection[Place], at: float) -> None:
        self._missing_since = {place: self._missing_since.get(place, at) for place in missing}
        for (topic, number), since in self._missing_since.items():
            if at - since >= _MISSING_S:
                raise RowsLostError(topic, f"no broker has its partition {number}")

    def _has_read(self, place: Place, state: _PartitionState) -> bool:
        return state.answers and 0 <= state.end <= self.positions[place]


def _partitions(statistics: Mapping[str, Any], topic: str) -> Mapping[int, _PartitionState]:
    """Returns what librdkafka's statistics say of the partitions that a topic has."""
    answering = _answering(statistics)
    found: dict[int, _PartitionState] = {}
    for number, one in statistics["topics"].get(topic, {}).get("partitions", {}).items():
        if int(number) >= 0 and not one["unknown"]:
            found[int(number)] = _PartitionState(answers=one["leader"] in answering, end=one["ls_offset"])
    return found


def _answering(statistics: Mapping[str, Any]) -> Collection[int]:
    """Returns the ids of the brokers that answer each request, of which there is none while enough is read ahead."""
    # librdkafka may have further connections to a broker, which it does not use.
    return {
        statistic["nodeid"]
        for statistic in statistics["brokers"].values()
        if statistic["state"] == "UP" and (statistic["waitresp_cnt"] == 0 or 0 <= statistic["rxidle"] < _SILENT_S * 1e6)
    }
