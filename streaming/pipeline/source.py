"""The journal as a Spark streaming source: what is published is planned, and a re-read equals the first read.

The reader only reads what the recorder has *published* (written and fsynced). Rows travel inside the input
partitions: the planner, which runs beside the driver, reads the journal and hands the rows out, so that
executors on other machines need no journal. `latestOffset` blocks until something is published, so an idle
query costs no spinning.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from connectors.errors import JournalError
from connectors.journal.reader import Journal
from connectors.observation import Observation
from streaming.pipeline.schema import OBSERVATION

WAIT_S = 10.0
"""How long `latestOffset` waits for something new. Each cluster gives a row a second, so it is rarely used up."""
ROWS_PER_BATCH = 2_000
"""Observation rows in one micro-batch at most: a long absence is caught up with in bites."""
BYTES_PER_BATCH = 16 * 1024 * 1024
"""Payload in one micro-batch at most, if it is more than one row: rows travel in the task, which Spark refuses above
128 MiB (and would again after every restart), and decoded they are many times larger."""

OBSERVATION_ARROW = to_arrow_schema(OBSERVATION)


def observations_to_arrow(rows: Sequence[Observation]) -> pa.RecordBatch:
    """Observations as one Arrow batch, in `OBSERVATION_ARROW`."""
    columns = [[getattr(row, name) for row in rows] for name in OBSERVATION_ARROW.names]
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, OBSERVATION_ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=OBSERVATION_ARROW)


class Rows(InputPartition):
    """Some consecutive rows of the journal, carried whole, as one Arrow IPC message."""

    def __init__(self, value: bytes) -> None:
        """`value` is an Arrow IPC stream of one batch."""
        super().__init__(value)


class JournalSource(DataSource):
    """`spark.readStream.format("kraftwatch-journal").option("path", DIR)`: observations in recorded order.

    Options: `path`, the journal's folder on the driver's machine.
    """

    options: MutableMapping[str, str]
    NAME: ClassVar[str] = "kraftwatch-journal"

    @classmethod
    def name(cls) -> str:
        """The format's name in `readStream.format`."""
        return cls.NAME

    def schema(self) -> StructType:
        """The one schema of an observation."""
        return OBSERVATION

    def streamReader(self, schema: StructType) -> "JournalStreamReader":
        """A reader that holds the path only: it is pickled to the planner."""
        return JournalStreamReader(Path(self.options["path"]))


class JournalStreamReader(DataSourceStreamReader):
    """Offsets are `{"journal": id, "sequence": next row}`: another journal at the same place is refused."""

    def __init__(self, path: Path) -> None:
        """`path` is the journal's folder; it is opened at first use, in the planner."""
        self._path = path
        self._journal: Journal | None = None
        self._bite: tuple[int, list[Observation]] | None = None
        """Where the newest planned batch begins, and its rows: they were read to know where it ends."""

    def _opened(self) -> Journal:
        if self._journal is None:
            self._journal = Journal(self._path)
        return self._journal

    def initialOffset(self) -> dict[str, str | int]:
        """The oldest row that the journal still holds."""
        journal = self._opened()
        return {"journal": journal.journal_id, "sequence": journal.first()}

    def getDefaultReadLimit(self) -> ReadLimit:
        """A bite, so that catching up shows progress and keeps memory bounded."""
        return ReadMaxRows(ROWS_PER_BATCH)

    def latestOffset(self, start: dict[str, str | int], limit: ReadLimit) -> dict[str, str | int]:
        """The end of what is published, waiting for more when there is nothing behind `start`."""
        journal = self._checked(start)
        begin = int(start["sequence"])
        end = journal.wait_beyond(begin, WAIT_S)
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        rows = list(_bounded(journal.read(begin, end)))
        self._bite = (begin, rows)
        return {"journal": journal.journal_id, "sequence": begin + len(rows)}

    def partitions(self, start: dict[str, str | int], end: dict[str, str | int]) -> Sequence[InputPartition]:
        """One partition that carries the rows themselves."""
        journal = self._checked(start)
        begin, until = int(start["sequence"]), int(end["sequence"])
        # Let go here: Spark pickles this reader to the executors with every batch.
        bite, self._bite = self._bite, None
        if bite is not None and (bite[0], bite[0] + len(bite[1])) == (begin, until):
            rows = bite[1]
        else:
            rows = list(journal.read(begin, until))
        if not rows:
            return []
        batch = observations_to_arrow(rows)
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, batch.schema) as writer:
            writer.write_batch(batch)
        return [Rows(out.getvalue().to_pybytes())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows that the partition carries; runs on any executor."""
        with pa.ipc.open_stream(partition.value) as stream:
            yield from stream

    def commit(self, end: dict[str, str | int]) -> None:
        """Everything below `end` was told: the recorder may let go of it."""
        self._checked(end).commit(int(end["sequence"]))

    def _checked(self, offset: dict[str, str | int]) -> Journal:
        journal = self._opened()
        if offset["journal"] != journal.journal_id:
            raise JournalError(
                f"{self._path} is journal {journal.journal_id}, but the checkpoint was planned on journal "
                f"{offset['journal']}: restore the journal that belongs to this checkpoint, or start with a new one"
            )
        return journal


def _bounded(rows: Iterator[Observation]) -> Iterator[Observation]:
    """As many rows as fit into one batch, at least the first."""
    size = 0
    for row in rows:
        size += len(row.payload)
        if size > BYTES_PER_BATCH and size > len(row.payload):
            return
        yield row
