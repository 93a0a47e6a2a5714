"""The relay's topic as the source of the query, and as a batch DataFrame.

The planner, which runs beside the driver, reads the topic and puts the rows into the input partition, as with a
journal: only the reader of a row can know that it needs no batch (`topic_batch`). Executors need neither the topic nor
its login.
"""

import atexit
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias

import pyarrow as pa
from pydantic import PlainSerializer, TypeAdapter
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from connectors.settings.secret import Secret
from connectors.settings.sections import TopicSection
from streaming.pipeline.schema import PACKED
from streaming.pipeline.source import BYTES_PER_BATCH, arrow_stream, read_arrow_stream
from streaming.pipeline.topic_batch import MessageReader, TopicBatch, TopicCluster
from streaming.pipeline.topic_files import TopicFiles, TopicState

if TYPE_CHECKING:
    from connectors.relay.topic_follower import TopicFollower

WAIT_S: Final = 1.0
"""Seconds that `latestOffset` waits for a batch to be due: a query that is stopped waits for its return."""
_POLL_S: Final = 0.2
_FURTHER_S: Final = 0.05
"""How long a batch that is due waits for each of the messages that are there."""
_STATE_EVERY_S: Final = 1.0
Offsets: TypeAlias = dict[str, dict[str, int]]
"""By topic and number of the partition: the next message."""


def _plain(section: TopicSection) -> Mapping[str, Any]:
    """Returns a section as JSON has it, with its secrets, and without the keys of a subclass."""
    found: dict[str, Any] = {}
    for name in TopicSection.model_fields:
        value = getattr(section, name)
        if isinstance(value, Secret):
            value = value.text if value.file is None else {"file": str(value.file.absolute())}
        found[name] = str(value.absolute()) if isinstance(value, Path) else value
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    """What is read. Its JSON holds the secrets of the login that are not in files of their own."""

    connection: Annotated[TopicSection, PlainSerializer(_plain)]
    """To the brokers; its topic is one of those that are read."""
    starting_offsets: Mapping[str, Mapping[int, int]]
    """Where a new query begins, by topic and partition; other partitions are read from their start."""
    clusters: Mapping[str, TopicCluster]
    """The monitored clusters by name."""
    rows_per_batch: int = 20_000
    """Of one batch, at most: a backlog is read in bounded batches."""

    def observations(self, spark: SparkSession, files: TopicFiles) -> DataFrame:
        """Returns the stream of packed observations; `files`: of the job."""
        files.begin(_SOURCE.dump_json(self))
        spark.dataSource.register(TopicDataSource)
        return spark.readStream.format(TopicDataSource.NAME).option("folder", str(files.folder.absolute())).load()

    def recorded(self, spark: SparkSession, since_ms: int) -> DataFrame:
        """Returns the packed observations that were made since then, or a minute before, and are in the topics now.

        The master is a local one: its workers read the login in a file.
        """
        folder = Path(tempfile.mkdtemp(prefix="kraftwatch-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        TopicFiles(folder).begin(_SOURCE.dump_json(self))
        spark.dataSource.register(TopicDataSource)
        reader = spark.read.format(TopicDataSource.NAME).option("folder", str(folder))
        return reader.option("since_ms", str(since_ms)).load()


_SOURCE: Final = TypeAdapter(TopicSource)


class TopicDataSource(DataSource):
    """The topics of a job: packed observations, each cluster's in the order of its partition.

    Options: `folder`, that of `TopicFiles`; of a batch DataFrame also `since_ms`.
    """

    options: MutableMapping[str, str]
    NAME: ClassVar[str] = "kraftwatch-topic"

    @classmethod
    def name(cls) -> str:
        """Returns the format's name in `readStream.format`."""
        return cls.NAME

    def schema(self) -> StructType:
        """Returns `schema.PACKED`."""
        return PACKED

    def streamReader(self, schema: StructType) -> "TopicStreamReader":
        """Returns a reader that holds only the folder, because Spark pickles it to the executors."""
        return TopicStreamReader(TopicFiles(Path(self.options["folder"])))

    def reader(self, schema: StructType) -> "TopicBatchReader":
        """Returns the reader of a batch DataFrame."""
        return TopicBatchReader(TopicFiles(Path(self.options["folder"])), int(self.options["since_ms"]))


class TopicStreamReader(DataSourceStreamReader):
    """Offsets are the next message by topic and partition."""

    def __init__(self, files: TopicFiles) -> None:
        """Takes the job's files: nothing is opened yet."""
        self._files = files
        self._reading: _TopicReading | None = None

    def initialOffset(self) -> Offsets:
        """Returns where a new query begins."""
        return self._opened.source_offsets

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns the bound of one batch, so that a backlog shows progress and memory stays bounded."""
        return ReadMaxRows(self._opened.source.rows_per_batch)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """Returns the end of the next batch if one is due within a second, else `start`."""
        return self._opened.planned_end(start)

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """Returns the rows as one partition, an Arrow IPC stream: they only pass through the task that reads it."""
        batches = self._opened.batches(start, end)
        return [InputPartition(arrow_stream(batches))] if batches else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a partition; runs on any executor."""
        yield from read_arrow_stream(partition)

    def stop(self) -> None:
        """Closes the connections."""
        if self._reading is not None:
            self._reading.follower.close()

    @property
    def _opened(self) -> "_TopicReading":
        if self._reading is None:
            self._reading = _TopicReading(_SOURCE.validate_json(self._files.source()), self._files)
            self._files.delete_source()
        return self._reading


class _TopicReading:
    """What the planner holds: the connection, and the rows of the next batch."""

    def __init__(self, source: TopicSource, files: TopicFiles, follower: "TopicFollower | None" = None) -> None:
        # Imported here: executors need no library of Kafka's.
        from connectors.relay.topic_follower import TopicFollower

        self.source, self._files = source, files
        self.source_offsets: Offsets = {
            topic: {str(number): offset for number, offset in partitions.items()}
            for topic, partitions in source.starting_offsets.items()
        }
        self.follower = follower or TopicFollower(source.connection, source.starting_offsets)
        self._batch = TopicBatch(
            MessageReader(source.clusters), most_rows=source.rows_per_batch, most_bytes=BYTES_PER_BATCH
        )
        self._begins: Offsets | None = None
        """Where the batch begins; None: it is read from its offsets again."""
        self._ends: Offsets | None = None
        """Where it ends, once it is planned."""
        self._state_at = self._failing_since = 0.0

    def planned_end(self, start: Offsets) -> Offsets:
        """Returns the end of the next batch if one is due within a second, else `start`."""
        if self._begins != start or self._ends is not None:
            self._begin(start)
        until = time.monotonic() + WAIT_S
        while (due_s := self._batch.due_in_s) > 0:
            left_s = until - time.monotonic()
            if left_s <= 0:
                return start
            self._read_next(min(due_s, left_s))
        newest_at = time.monotonic()
        while not (self._batch.is_full or self.follower.at_end):
            if self._read_next(_FURTHER_S):
                newest_at = time.monotonic()
            elif time.monotonic() - newest_at >= _FURTHER_S:
                # It also returns early, at the end of each answer of a broker that had nothing more then.
                break
        self._ends = self._position()
        return self._ends

    def batches(self, start: Offsets, end: Offsets) -> Sequence[pa.RecordBatch]:
        """Returns the rows between these offsets; reads them again, unless they were planned just now."""
        if (self._begins, self._ends) != (start, end):
            self._begin(start)
            ends = {(topic, int(number)): at for topic, numbers in end.items() for number, at in numbers.items()}
            while any(self.follower.positions.get(place, -1) < at for place, at in ends.items()):
                self._read_next(_POLL_S, before=ends)
        # What it has is not kept: read again, it is the same.
        self._begins = None
        return self._batch.take()

    def _begin(self, start: Offsets) -> None:
        """Begins a batch at these offsets."""
        self.follower.follow(
            {
                (topic, int(number)): offset
                for topic, numbers in {**self.source_offsets, **start}.items()
                for number, offset in numbers.items()
            }
        )
        self._batch.begin(self._files.quiet_until())
        self._begins, self._ends = start, None

    def _position(self) -> Offsets:
        found: Offsets = {}
        for (topic, number), offset in sorted(self.follower.positions.items()):
            if offset >= 0:
                found.setdefault(topic, {})[str(number)] = offset
        return found

    def _read_next(self, timeout_s: float, before: Mapping[tuple[str, int], int] | None = None) -> bool:
        """Adds the next message to the batch, if one comes in this time; returns whether one came."""
        message = self.follower.poll(timeout_s)
        self._store_state()
        if message is None:
            return False
        if before is None or message.offset < before.get((message.topic, message.partition), 0):
            self._batch.add(message)
        return True

    def _store_state(self) -> None:
        now = time.monotonic()
        if now < self._state_at + _STATE_EVERY_S:
            return
        self._state_at = now
        failing = self.follower.failing
        self._failing_since = 0.0 if failing is None else self._failing_since or now
        self._files.put_state(
            TopicState(
                failing=failing,
                failing_since=self._failing_since,
                read_to_end_at=self.follower.read_to_end_at,
                row_at=self._batch.row_at,
                waiting_ms=self._batch.waiting_ms,
            )
        )


@dataclass
class TopicPart(InputPartition):
    """A partition of a topic."""

    topic: str
    number: int


class TopicBatchReader(DataSourceReader):
    """Reads the topics from a time on; each partition of a topic is a task."""

    def __init__(self, files: TopicFiles, since_ms: int) -> None:
        self._files, self._since_ms = files, since_ms

    def partitions(self) -> Sequence[InputPartition]:
        """Returns the partitions of the topics."""
        from connectors.relay.topic_client import reading

        source = _SOURCE.validate_json(self._files.source())
        found: list[InputPartition] = []
        for topic in source.starting_offsets:
            with reading(_of_topic(source.connection, topic)) as reader:
                found += [TopicPart(topic, number) for number in reader.bounds]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a partition."""
        from connectors.relay.topic_client import reading, topic_message

        assert isinstance(partition, TopicPart)
        source = _SOURCE.validate_json(self._files.source())
        batch = TopicBatch(MessageReader(source.clusters), most_rows=source.rows_per_batch, most_bytes=BYTES_PER_BATCH)
        with reading(_of_topic(source.connection, partition.topic)) as reader:
            # No row is more than a minute after the broker's time of its message: such a row is refused.
            begin = reader.offset_at(partition.number, self._since_ms - 60_000)
            for message in reader.messages({partition.number: begin}):
                batch.add(topic_message(message))
                if batch.is_full:
                    yield from batch.take()
        yield from batch.take()


def _of_topic(connection: TopicSection, topic: str) -> TopicSection:
    return connection.model_copy(update={"topic": topic})
