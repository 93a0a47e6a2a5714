"""The journal as a Spark streaming source: published rows are planned, and a repeated read returns the same rows.

The planner, which runs beside the driver, reads the journal and puts the rows into the input partition, so that
executors on other machines need no journal. `latestOffset` blocks until new rows are published.
"""

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import ClassVar, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from connectors.errors import JournalError
from connectors.observations.observation import Observation
from connectors.store.journal_reader import JournalReader
from streaming.pipeline.arrow_schema import arrow_schema
from streaming.pipeline.schema import OBSERVATION, PACKED, pack

WAIT_S = 10.0
"""Seconds that `latestOffset` waits for new rows at most. Each cluster adds at least one row a second."""
ROWS_PER_BATCH = 8_000
"""Most observation rows in one micro-batch: a backlog is processed in bounded batches. A batch costs something for each
cluster, whatever its rows, so it must hold several seconds of a thousand clusters."""
BYTES_PER_BATCH = 16 * 1024 * 1024
"""Most payload bytes in one micro-batch, unless one row alone is larger: rows travel in the task, which Spark refuses
above 128 MiB (again after every restart), and decoded rows are many times larger."""

OBSERVATION_ARROW = arrow_schema(OBSERVATION)
ToArrow: TypeAlias = Callable[[Sequence[Observation]], pa.RecordBatch]


def observations_to_arrow(rows: Sequence[Observation]) -> pa.RecordBatch:
    """Returns observations as one Arrow batch with the schema `OBSERVATION_ARROW`."""
    columns = [[getattr(row, name) for row in rows] for name in OBSERVATION_ARROW.names]
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, OBSERVATION_ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=OBSERVATION_ARROW)


class JournalSource(DataSource):
    """The journal of a job: packed observations in recorded order.

    Option: `path`, the journal's folder on the driver's machine.
    """

    options: MutableMapping[str, str]
    NAME: ClassVar[str] = "kraftwatch-journal"

    @classmethod
    def name(cls) -> str:
        """Returns the format's name in `readStream.format`."""
        return cls.NAME

    def schema(self) -> StructType:
        """Returns `schema.PACKED`."""
        return PACKED

    def streamReader(self, schema: StructType) -> "JournalStreamReader":
        """Returns a reader that holds only the path, because Spark pickles it to the planner."""
        return JournalStreamReader(Path(self.options["path"]), to_arrow=pack)


class JournalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are `{"journal": id, "sequence": next row}`: another journal at the same path is refused."""

    def __init__(self, path: Path, *, commits: bool = True, to_arrow: ToArrow = observations_to_arrow) -> None:
        """Takes the journal's folder: nothing is opened yet.

        `commits`: mark processed rows in the journal, whose writer may then delete them. Only the job does that.
        """
        self._to_arrow = to_arrow
        self._commits = commits
        self._target: int | None = None
        """With the trigger AvailableNow: the sequence at which the query ends."""
        self._journal = JournalReader(path)
        self._planned: tuple[int, list[Observation]] | None = None
        """First sequence and rows of the newest planned batch: they were read to find its end."""

    def initialOffset(self) -> dict[str, str | int]:
        """Returns the offset of the row from which on a new state can be built."""
        return {"journal": self._journal.journal_id, "sequence": self._journal.beginning()}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns the bound of one batch, so that a backlog shows progress and memory stays bounded."""
        return ReadMaxRows(ROWS_PER_BATCH)

    def prepareForTriggerAvailableNow(self) -> None:
        """Makes the query end at the rows that are published now."""
        self._target = self._journal.published_end()

    def latestOffset(self, start: dict[str, str | int], limit: ReadLimit) -> dict[str, str | int]:
        """Returns the end of the published rows; waits if none is after `start`, unless the query ends there."""
        journal = self._checked(start)
        begin = int(start["sequence"])
        end = journal.wait_beyond(begin, WAIT_S) if self._target is None else max(begin, self._target)
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        rows = list(_bounded(journal.read(begin, end)))
        self._planned = (begin, rows)
        return {"journal": journal.journal_id, "sequence": begin + len(rows)}

    def partitions(self, start: dict[str, str | int], end: dict[str, str | int]) -> Sequence[InputPartition]:
        """Returns the rows as one partition, an Arrow IPC stream: they only pass through the task that reads it."""
        journal = self._checked(start)
        begin, until = int(start["sequence"]), int(end["sequence"])
        # Released here: Spark pickles this reader to the executors with every batch.
        (first, rows), self._planned = self._planned or (begin, []), None
        if (first, first + len(rows)) != (begin, until):
            rows = list(journal.read(begin, until))
        return [InputPartition(arrow_stream([self._to_arrow(rows)]))] if rows else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a partition; runs on any executor."""
        yield from read_arrow_stream(partition)

    def commit(self, end: dict[str, str | int]) -> None:
        """Marks the rows below `end` as delivered: the journal writer may delete them."""
        journal = self._checked(end)
        if self._commits:
            journal.commit(int(end["sequence"]))

    def _checked(self, offset: dict[str, str | int]) -> JournalReader:
        journal = self._journal
        if offset["journal"] != journal.journal_id:
            raise JournalError(
                f"{journal.directory} is journal {journal.journal_id}, but the checkpoint belongs to journal "
                f"{offset['journal']}: restore the journal that belongs to this checkpoint, or start with a new one"
            )
        return journal


def arrow_stream(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Returns batches of the same schema, at least one, as an Arrow IPC stream, the value of an input partition."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    content: bytes = out.getvalue().to_pybytes()
    return content


def read_arrow_stream(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a partition of `arrow_stream`."""
    with pa.ipc.open_stream(partition.value) as stream:
        yield from stream


def _bounded(rows: Iterator[Observation]) -> Iterator[Observation]:
    """Yields as many rows as fit into one batch, at least the first."""
    size = 0
    for row in rows:
        size += len(row.payload)
        if size > BYTES_PER_BATCH and size > len(row.payload):
            return
        yield row
