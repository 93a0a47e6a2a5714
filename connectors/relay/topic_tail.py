"""TopicTail: reads the relay's topic from its newest messages on, as every relay of the topic does.

Each row moves the TopicPosition of its cluster. A relay that takes the cluster over continues there.
"""

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from connectors.errors import UndecodableError
from connectors.kafka import librdkafka
from connectors.observations.observation import Observation, ObservationKind
from connectors.relay.relay_message import Baseline, RelayMessage, TopicError
from connectors.relay.topic_client import accepted, ends, open_consumer, partitions, reason
from connectors.settings.sections import TopicSection
from connectors.store.follow_progress import FollowProgress, advance

_LOG = logging.getLogger(__name__)
_NEWEST_MESSAGES: Final = 20_000
"""Of each partition, at the start. A cluster without a row among them begins with a new baseline."""
_AT_ONCE: Final = 1_000
_METADATA_S: Final = 2.0
_PARTITIONS_EVERY_S: Final = 10.0
_POLL_S: Final = 0.1
_BUFFER_KIB: Final = 8 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPosition:
    """How far the topic has the rows of a cluster."""

    partition: int
    relay: str
    """The name of the relay that wrote the newest row."""
    baseline: Baseline
    sequence: int
    """Of the newest row."""
    progress: FollowProgress
    """Of the rows since the baseline began."""
    log_end: int
    """The end of the metadata log in the topic; while a baseline is read again, that of the baseline before it."""
    whole: bool
    """Whether the baseline has the log up to its high watermark."""
    gap: str | None = None
    """Which offsets of the baseline's log are missing; None if none are."""

    @property
    def usable(self) -> bool:
        """Whether a state that begins at the baseline knows the whole log."""
        return self.whole and self.gap is None

    def has(self, row: "RowExtent") -> bool:
        """Returns whether the topic has what the row of another relay reports, or something newer."""
        if row.log_end is not None:
            return row.log_end <= self.log_end
        return row.observed_at_ms <= self.progress.observed_at_ms

    def continues(self, row: "RowExtent") -> bool:
        """Returns whether no offset is missing between the topic's log and this row of the log."""
        return row.log_begin is None or row.log_begin <= self.log_end


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExtent:
    """What a row adds."""

    observed_at_ms: int
    log_begin: int | None
    """The first offset of its records; None for other rows, and for a snapshot, which needs nothing before it."""
    log_end: int | None
    """The offset after its records, or of its snapshot; None for a row without."""


def extent(row: Observation) -> RowExtent:
    """Returns what a row adds."""
    begin = end = None
    if row.kind is ObservationKind.SNAPSHOT:
        end = row.base_offset
    elif row.kind is ObservationKind.RECORDS and row.payload and row.last_offset is not None:
        begin, end = row.base_offset, row.last_offset + 1
    return RowExtent(observed_at_ms=row.observed_at_ms, log_begin=begin, log_end=end)


def advanced(before: TopicPosition | None, message: RelayMessage, partition: int) -> TopicPosition | None:
    """Returns the position after a message; None for a row that readers skip, because it is not above the newest one.

    `message`: the next one of the cluster in the order of the partition; it is not refused.
    """
    row = message.observation
    if before is not None and row.sequence <= before.sequence:
        return None
    same = before is not None and before.baseline == message.baseline
    former = before.progress if before is not None and same else None
    progress = advance(former, row)
    end, former_end = progress.next_offset, None if former is None else former.next_offset
    caught_up = end is not None and progress.high_watermark is not None and end >= progress.high_watermark
    reads_on = end is not None and former_end is not None and end >= former_end
    whole = caught_up or (before is not None and same and before.whole and (reads_on or end == former_end))
    return TopicPosition(
        partition=partition,
        relay=message.relay,
        baseline=message.baseline,
        sequence=row.sequence,
        progress=progress,
        log_end=(end or 0) if whole else max(end or 0, 0 if before is None else before.log_end),
        whole=whole,
        gap=(before.gap if before is not None and same else None) or _gap(former_end, row),
    )


def _gap(end: int | None, row: Observation) -> str | None:
    begin = extent(row).log_begin
    return f"offsets {end} to {begin - 1}" if begin is not None and end is not None and begin > end else None


class TopicTail:
    """Follows one topic. After `close`, `open` continues where it was."""

    def __init__(self, topic: TopicSection, clusters: Mapping[str, str]) -> None:
        """Connects to nothing yet; `clusters`: their ids by name. Rows of others are passed over."""
        self._topic = topic
        self._clusters = {name.encode(): (name, cluster_id) for name, cluster_id in clusters.items()}
        self._consumer: Any = None
        self._next: dict[int, int] = {}
        """The offset of the next message, by partition."""
        self._start_ends: dict[int, int] = {}
        """The ends of the partitions when they were first read."""
        self._partitions_at = 0.0
        self.positions: dict[str, TopicPosition] = {}
        """By cluster; one without a row among those that were read is missing."""
        self.created_again = False
        """The topic no longer has what was read: the positions are those of another topic."""

    @property
    def caught_up(self) -> bool:
        """Whether everything was read that was in the topic at the start."""
        return bool(self._next) and all(self._next[each] >= end for each, end in self._start_ends.items())

    def open(self, within_s: float) -> None:
        """Connects, and finds the newest messages if nothing was read before.

        Raises UsageError if a secret cannot be read, TopicError if the topic cannot be read.
        """
        if self._consumer is not None:
            return
        until = time.monotonic() + within_s
        further = {
            "enable.partition.eof": True,
            "queued.max.messages.kbytes": _BUFFER_KIB,
            "auto.offset.reset": "error",
        }
        self._consumer = open_consumer(self._topic, further)
        try:
            self._find_partitions(until)
        except KafkaException as problem:
            self.close()
            raise TopicError(reason(problem.args[0], self._topic)) from None
        except TopicError:
            self.close()
            raise

    def close(self) -> None:
        """Closes the connection; positions stay."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def read(self) -> Iterator[Observation]:
        """Yields the rows of the relayed clusters that have arrived, after the position of each is updated.

        Rows that readers skip or refuse are left out. Raises KafkaException if the topic cannot be read.
        """
        if time.monotonic() >= self._partitions_at:
            self._notice_partitions()
        for message in self._consumer.consume(_AT_ONCE, 0):
            error = message.error()
            if error is not None:
                self._check(error, message)
                continue
            self._next[message.partition()] = message.offset() + 1
            if (found := self._clusters.get(message.key() or b"")) is not None:
                yield from self._counted(message, *found)

    @property
    def partitions(self) -> Collection[int]:
        """The partitions of the topic."""
        return self._next.keys()

    def ends(self) -> Mapping[int, int]:
        """Returns the ends of the partitions as reported now; one whose leader does not answer is missing."""
        return self._ends()

    def uncommitted_ends(self) -> Mapping[int, int]:
        """Returns the same after what can be read once the transactions before it have ended."""
        return self._ends({"isolation.level": "read_uncommitted"})

    def _ends(self, further: Mapping[str, Any] | None = None) -> Mapping[int, int]:
        # With a connection of its own: that of the tail waits for rows, half a second for each partition.
        with closing(open_consumer(self._topic, further)) as consumer:
            return ends(consumer, self._topic, self._next, timeout_s=_METADATA_S)

    def has_read(self, partition: int, end: int) -> bool:
        """Returns whether everything below this offset was read."""
        return self._next.get(partition, 0) >= end

    def _counted(self, message: Message, cluster: str, cluster_id: str) -> Iterator[Observation]:
        with suppress(UndecodableError):
            read = accepted(message, cluster_id)
            after = advanced(self.positions.get(cluster), read, message.partition())
            if after is not None:
                self.positions[cluster] = after
                yield read.observation

    def _check(self, error: KafkaError, message: Message) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            self._next[message.partition()] = max(self._next[message.partition()], message.offset())
            return
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError._UNKNOWN_PARTITION):
            self.created_again = True
        # Of everything else librdkafka recovers; a group is looked for and not used.
        denied = error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED or librdkafka.authentication_failed(error)
        if denied or error.fatal():
            raise KafkaException(error)

    def _find_partitions(self, until: float) -> None:
        numbers = partitions(self._consumer, self._topic, timeout_s=_METADATA_S)
        self.created_again = not self._next.keys() <= {*numbers}
        for number in numbers:
            if number not in self._next:
                low, high = self._watermarks(number, until)
                self._next[number], self._start_ends[number] = max(low, high - _NEWEST_MESSAGES), high
        self._consumer.assign([TopicPartition(self._topic.topic, each, at) for each, at in self._next.items()])
        self._partitions_at = time.monotonic() + _PARTITIONS_EVERY_S

    def _watermarks(self, partition: int, until: float) -> tuple[int, int]:
        """Returns the first offset and the end of a partition; a new one has no leader for a moment."""
        place = TopicPartition(self._topic.topic, partition)
        while True:
            left_s = until - time.monotonic()
            try:
                low, high = self._consumer.get_watermark_offsets(place, timeout=max(0.1, left_s), cached=False)
            except KafkaException as problem:
                if left_s <= 0 or not librdkafka.not_ready(problem.args[0]):
                    raise
                time.sleep(_POLL_S)
            else:
                return int(low), int(high)

    def _notice_partitions(self) -> None:
        """Reads partitions that were added, from their start."""
        self._partitions_at = time.monotonic() + _PARTITIONS_EVERY_S
        try:
            numbers = partitions(self._consumer, self._topic, timeout_s=_METADATA_S)
        except (KafkaException, TopicError):
            return
        self.created_again = self.created_again or not self._next.keys() <= {*numbers}
        added = [number for number in numbers if number not in self._next]
        if added:
            _LOG.warning(
                "the topic %s has %d partitions now: the rows of each cluster stay in the partition that they are in",
                self._topic.topic,
                len(numbers),
            )
            self._next |= dict.fromkeys(added, 0)
            self._consumer.incremental_assign([TopicPartition(self._topic.topic, each, 0) for each in added])
