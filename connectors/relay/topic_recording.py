"""TopicRecording: what relays wrote of some clusters, read back by time, on any machine that reaches the brokers.

The state of a cluster needs its metadata log from the start or a snapshot, so the rows of a time are read from the
newest baseline before it. Rows that a job skips or refuses are left out here too.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from heapq import nlargest
from typing import Final

from confluent_kafka import Message

from connectors.errors import UndecodableError, UsageError
from connectors.observations.observation import Observation
from connectors.relay.relay_message import RecordedTopic, RelayMessage, TopicError
from connectors.relay.topic_client import Progress, TopicReader, accepted, reading
from rules.firing import AHEAD_MS
from rules.formatting import plural
from rules.model.identifiers import Millis

_DAY_MS: Final = 86_400_000
_STATE_MS: Final = 3_600_000
"""Many clusters share a topic: a replay remembers an hour, of voters' directories a day."""
_NEWEST_MS: Final = 300_000
_NEWEST: Final = (5_000, 200_000, 1 << 62)
"""How many of the newest messages of a partition are searched for the newest row, one after the other."""


@dataclass(slots=True, kw_only=True)
class _ClusterRows:
    """From where on the rows of a cluster are read, and how far they are."""

    cluster_id: str
    partition: int
    begins_at: int
    """Offset of the topic."""
    baseline: int
    """Rows of an older baseline are left out."""
    newest: int = -1
    """Sequence of the newest row."""
    writer: tuple[int, str] = (-1, "")
    """Of the newest row: the sequence of its baseline, and its relay."""
    ended: bool = False


class TopicRecording:
    """The rows of several topics. Not for use by several threads. Raises UsageError if a topic cannot be read."""

    kind = "topic"

    def __init__(self, topics: Sequence[RecordedTopic], say: Callable[[str], None] = lambda _: None) -> None:
        """Connects to nothing yet; `say` prints progress, every two seconds."""
        self._say = say
        self._topics = [topic for topic in topics if topic.clusters]
        self._begun: tuple[str, int] | None = None
        """Cluster and sequence of the newest row with which a baseline, or the rows of another relay, begin."""

    @property
    def place(self) -> str:
        """The names of the topics."""
        names = [topic.connection.topic for topic in self._topics]
        return f"the topic {names[0]}" if len(names) == 1 else f"the topics {', '.join(names)}"

    def newest_ms(self) -> Millis:
        """Returns the time of the newest row of the clusters; 0 if there is none."""
        newest_ms = 0
        for topic in self._topics:
            with _reading(topic, self._say) as reader:
                newest_ms = max(newest_ms, reader.newest_ms())
        return Millis(newest_ms)

    def rows(self, *, since_ms: Millis | None = None, until_ms: Millis | None = None) -> Iterator[Observation]:
        """Yields the rows of the clusters, each one's in order, partition by partition.

        Args:
            since_ms: the rows begin with the baseline that the first row of each cluster from this time on belongs to;
                where the topic no longer has all of it, with the next one. A cluster without a row from then on begins
                up to a day earlier. None: the oldest baseline.
            until_ms: the rows of a cluster end with the first one after this time.
        """
        for topic in self._topics:
            with _reading(topic, self._say) as reader:
                for row, begins in reader.rows(since_ms, until_ms):
                    if begins:
                        self._begun = (row.cluster, row.sequence)
                    yield row

    def state_from_ms(self, at_ms: Millis | None) -> Millis:
        """Returns from when on rows are needed for the state at a time; None: for the newest one."""
        return Millis((self.newest_ms() if at_ms is None else at_ms) - _STATE_MS)

    def newest_rows(self, count: int) -> Iterator[Observation]:
        """Yields at most so many rows, the newest ones of the last five minutes, oldest first."""
        since_ms = Millis(self.newest_ms() - _NEWEST_MS)
        rows = ((row, self.restarts_logs(row)) for row in self.rows(since_ms=since_ms))
        since = (one for one in rows if one[0].observed_at_ms >= since_ms)
        for row, begins in reversed(nlargest(count, since, lambda one: (one[0].observed_at_ms, one[0].sequence))):
            self._begun = (row.cluster, row.sequence) if begins else None
            yield row

    def restarts_logs(self, row: Observation) -> bool:
        """Returns whether the log of the cluster may be read again from the newest row on that was yielded."""
        return self._begun == (row.cluster, row.sequence)


class _RecordedRows:
    """The rows of one topic."""

    def __init__(self, topic: RecordedTopic, reader: TopicReader, say: Callable[[str], None]) -> None:
        self._topic, self._reader, self._say = topic, reader, Progress(topic.connection.topic, say)
        self._keys = {name.encode(): name for name in topic.clusters}

    def newest_ms(self) -> int:
        """Returns the time of the newest row; 0 if there is none."""
        for count in _NEWEST:
            newest = 0
            for message in self._reader.messages(
                {one: max(low, high - count) for one, (low, high) in self._reader.bounds.items()}
            ):
                read = self._parsed(message)
                if read is not None:
                    newest = max(newest, read.observation.observed_at_ms)
            if newest:
                return newest
        return 0

    def rows(self, since_ms: Millis | None, until_ms: Millis | None) -> Iterator[tuple[Observation, bool]]:
        """Yields the rows as `TopicRecording.rows`, and whether one is the first of a baseline or of a relay."""
        clusters = self._clusters(since_ms, until_ms)
        for partition, (_, end) in self._reader.bounds.items():
            own = {name: one for name, one in clusters.items() if one.partition == partition}
            begin = min((one.begins_at for one in own.values()), default=end)
            for message in self._reader.messages({partition: begin}):
                found = self._row(message, own, until_ms)
                if found is not None:
                    yield found
                self._say(f"{100 * (message.offset() - begin) // (end - begin)} % of partition {partition}")
                if all(one.ended for one in own.values()):
                    break

    def _clusters(self, since_ms: Millis | None, until_ms: Millis | None) -> Mapping[str, _ClusterRows]:
        """Returns where each cluster's rows begin: with the baseline of its first row since then or a day before."""
        found: dict[str, _ClusterRows] = {}
        missing = {*self._keys.values()}
        ends = {number: high for number, (_, high) in self._reader.bounds.items()}
        for at_ms in (since_ms,) if since_ms is None else (since_ms, Millis(since_ms - _DAY_MS)):
            begins = {number: self._begin(number, at_ms) for number in self._reader.bounds}
            first = self._first_rows(begins, ends, missing)
            for name, (read, partition) in first.items():
                in_time = until_ms is None or read.observation.observed_at_ms <= until_ms
                if in_time or name not in found:
                    found[name] = self._begins(read, partition, begins[partition])
                if in_time:
                    missing.remove(name)
            ends = begins
        return found

    def _first_rows(
        self, begins: Mapping[int, int], ends: Mapping[int, int], names: Collection[str]
    ) -> Mapping[str, tuple[RelayMessage, int]]:
        """Returns the first message of each cluster between these offsets, and its partition."""
        first: dict[str, tuple[RelayMessage, int]] = {}
        for message in self._reader.messages(begins, ends) if names else ():
            name = self._keys.get(message.key() or b"")
            read = self._parsed(message) if name in names and name not in first else None
            if read is not None:
                first[read.observation.cluster] = (read, message.partition())
                if len(first) == len(names):
                    break
            self._say(f"looking for the first rows of {plural(len(names) - len(first), 'cluster')}")
        return first

    def _begin(self, partition: int, since_ms: Millis | None) -> int:
        low, _ = self._reader.bounds[partition]
        return low if since_ms is None else self._reader.offset_at(partition, since_ms - AHEAD_MS)

    def _begins(self, first: RelayMessage, partition: int, at: int) -> _ClusterRows:
        begins_at, whole = self._reader.place_of_baseline(partition, first.baseline)
        return _ClusterRows(
            cluster_id=first.cluster_id,
            partition=partition,
            begins_at=begins_at if whole else at,
            baseline=first.baseline.sequence + (not whole),
        )

    def _row(
        self, message: Message, clusters: Mapping[str, _ClusterRows], until_ms: Millis | None
    ) -> tuple[Observation, bool] | None:
        name = self._keys.get(message.key() or b"")
        one = None if name is None else clusters.get(name)
        if one is None or one.ended:
            return None
        read = self._parsed(message, one.cluster_id)
        if read is None or read.baseline.sequence < one.baseline or read.observation.sequence <= one.newest:
            return None
        writer = (read.baseline.sequence, read.relay)
        begins, one.writer = writer != one.writer, writer
        one.newest = read.observation.sequence
        one.ended = until_ms is not None and read.observation.observed_at_ms > until_ms
        return read.observation, begins

    def _parsed(self, message: Message, cluster_id: str | None = None) -> RelayMessage | None:
        """Returns the message of one of the clusters; None for any other, and for one that jobs refuse."""
        name = self._keys.get(message.key() or b"")
        if name is None:
            return None
        with suppress(UndecodableError):
            return accepted(message, cluster_id or self._topic.clusters[name])
        return None


@contextmanager
def _reading(topic: RecordedTopic, say: Callable[[str], None]) -> Iterator[_RecordedRows]:
    try:
        with reading(topic.connection) as reader:
            yield _RecordedRows(topic, reader, say)
    except TopicError as problem:
        raise UsageError(f"relay: {problem}") from None
